//! Confines and runs one process tree.
