"""JSON as dying jobs leave it: bare NaN, cut files, odd bytes, and no more of it than memory holds."""
