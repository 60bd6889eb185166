//! `libxsched_cuda.so`: stands between an application and libcuda. Exports nothing yet.
