"""Image data sets: index files, decode them once, feed them from memory."""
