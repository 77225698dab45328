"""Players: whatever can choose moves in many games at once."""
