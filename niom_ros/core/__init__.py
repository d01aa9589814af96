"""What everything else stands on: errors, settings, parameters, homographies, files."""
