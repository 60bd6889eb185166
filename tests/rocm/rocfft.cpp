// rocFFT: a transform in two dimensions, whose kernels it compiles.
#include "said.h"
#include <rocfft/rocfft.h>

int main() {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    const size_t lengths[2] = {256, 64};
    rocfft_plan plan;
    rocfft_execution_info info;
    hipStream_t stream;
    void *data, *work = nullptr;
    size_t size = 0;
    SAY(rocfft_setup());
    SAY(hipStreamCreate(&stream));
    SAY(rocfft_plan_create(&plan, rocfft_placement_inplace, rocfft_transform_type_complex_forward, rocfft_precision_single, 2,
                           lengths, 1, nullptr));
    SAY(rocfft_plan_get_work_buffer_size(plan, &size));
    printf("work %zu\n", size);
    SAY(hipMalloc(&data, lengths[0] * lengths[1] * 8));
    SAY(rocfft_execution_info_create(&info));
    SAY(rocfft_execution_info_set_stream(info, stream));
    if (size) {
        SAY(hipMalloc(&work, size));
        SAY(rocfft_execution_info_set_work_buffer(info, work, size));
    }
    for (int i = 0; i < ROUNDS; i++) {
        void *buffers[1] = {data};
        OK(rocfft_execute(plan, buffers, nullptr, info));
    }
    SAY(hipStreamSynchronize(stream));
    SAY(hipGetLastError());
    SAY(rocfft_execution_info_destroy(info));
    SAY(rocfft_plan_destroy(plan));
    SAY(rocfft_cleanup());
    SAY(hipStreamDestroy(stream));
    return ended();
}
