"""What a training example is and how it is learned: targets, sampling, losses."""
