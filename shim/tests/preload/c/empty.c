/* A library of a conda environment, without any of the symbols that newer ones have. */
