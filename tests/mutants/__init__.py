"""Faults that a tired programmer could make, planted one at a time, and the tests that should catch them."""
