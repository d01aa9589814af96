"""What everything else builds on: errors, settings, parameters, homographies, files."""
