"""Recorded operators as functions of torch: what a repro takes along. Nothing here imports firstnan."""
