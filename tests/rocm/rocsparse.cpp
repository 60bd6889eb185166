// rocSPARSE: a sparse matrix times a vector, with and without an analysis, and a triangular system.
#include "said.h"
#include <rocsparse/rocsparse.h>

enum { ROWS = 1024 };

int main() {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    const float one = 1, zero = 0;
    // The diagonal.
    int starts[ROWS + 1], columns[ROWS];
    float values[ROWS];
    for (int i = 0; i <= ROWS; i++) starts[i] = i;
    for (int i = 0; i < ROWS; i++) columns[i] = i, values[i] = 2;
    rocsparse_handle handle;
    rocsparse_mat_descr matrix;
    rocsparse_mat_info info;
    hipStream_t stream;
    int *device_starts, *device_columns;
    float *device_values, *x, *y;
    SAY(rocsparse_create_handle(&handle));
    SAY(hipStreamCreate(&stream));
    SAY(rocsparse_set_stream(handle, stream));
    SAY(rocsparse_create_mat_descr(&matrix));
    SAY(rocsparse_create_mat_info(&info));
    SAY(hipMalloc((void **)&device_starts, sizeof starts));
    SAY(hipMalloc((void **)&device_columns, sizeof columns));
    SAY(hipMalloc((void **)&device_values, sizeof values));
    SAY(hipMalloc((void **)&x, sizeof values));
    SAY(hipMalloc((void **)&y, sizeof values));
    SAY(hipMemcpyAsync(device_starts, starts, sizeof starts, hipMemcpyHostToDevice, stream));
    SAY(hipMemcpyAsync(device_columns, columns, sizeof columns, hipMemcpyHostToDevice, stream));
    SAY(hipMemcpyAsync(device_values, values, sizeof values, hipMemcpyHostToDevice, stream));
    for (int i = 0; i < ROUNDS; i++)
        OK(rocsparse_scsrmv(handle, rocsparse_operation_none, ROWS, ROWS, ROWS, &one, matrix, device_values, device_starts,
                            device_columns, nullptr, x, &zero, y));
    SAY(rocsparse_scsrmv_analysis(handle, rocsparse_operation_none, ROWS, ROWS, ROWS, matrix, device_values, device_starts,
                                  device_columns, info));
    for (int i = 0; i < ROUNDS; i++)
        OK(rocsparse_scsrmv(handle, rocsparse_operation_none, ROWS, ROWS, ROWS, &one, matrix, device_values, device_starts,
                            device_columns, info, x, &zero, y));
    SAY(hipStreamSynchronize(stream));
    SAY(hipGetLastError());
    SAY(rocsparse_destroy_mat_info(info));
    SAY(rocsparse_destroy_mat_descr(matrix));
    SAY(rocsparse_destroy_handle(handle));
    SAY(hipStreamDestroy(stream));
    return ended();
}
