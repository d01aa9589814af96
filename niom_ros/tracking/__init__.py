"""Tracking a reference from frame to frame: cheaper than matching it again."""
