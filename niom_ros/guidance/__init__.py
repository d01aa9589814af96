"""What turns a match into guidance: references by name, landmarks, pose."""
