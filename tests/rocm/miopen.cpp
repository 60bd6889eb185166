// MIOpen: a kernel that it compiles, and a convolution whose algorithm is found by trying. Which one is fastest depends on times, so
// the program takes the first by number.
#include "said.h"
#include <miopen/miopen.h>

enum { CHANNELS = 16, SIDE = 32, FILTER = 3 };

int main() {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    const float one = 1, zero = 0;
    miopenHandle_t handle;
    hipStream_t stream;
    SAY(hipStreamCreate(&stream));
    SAY(miopenCreateWithStream(&handle, stream));
    miopenTensorDescriptor_t x, w, y;
    SAY(miopenCreateTensorDescriptor(&x));
    SAY(miopenCreateTensorDescriptor(&w));
    SAY(miopenCreateTensorDescriptor(&y));
    SAY(miopenSet4dTensorDescriptor(x, miopenFloat, 1, CHANNELS, SIDE, SIDE));
    SAY(miopenSet4dTensorDescriptor(w, miopenFloat, CHANNELS, CHANNELS, FILTER, FILTER));
    miopenConvolutionDescriptor_t convolution;
    SAY(miopenCreateConvolutionDescriptor(&convolution));
    SAY(miopenInitConvolutionDescriptor(convolution, miopenConvolution, 1, 1, 1, 1, 1, 1));
    int dimensions[4];
    SAY(miopenGetConvolutionForwardOutputDim(convolution, x, w, &dimensions[0], &dimensions[1], &dimensions[2],
                                             &dimensions[3]));
    SAY(miopenSet4dTensorDescriptor(y, miopenFloat, dimensions[0], dimensions[1], dimensions[2], dimensions[3]));
    void *dx, *dw, *dy, *workspace = nullptr;
    const size_t image = 4 * CHANNELS * SIDE * SIDE, filters = 4 * CHANNELS * CHANNELS * FILTER * FILTER;
    SAY(hipMalloc(&dx, image));
    SAY(hipMalloc(&dw, filters));
    SAY(hipMalloc(&dy, image));

    miopenActivationDescriptor_t relu;
    SAY(miopenCreateActivationDescriptor(&relu));
    SAY(miopenSetActivationDescriptor(relu, miopenActivationRELU, 1, 0, 1));
    SAY(miopenActivationForward(handle, relu, &one, x, dx, &zero, y, dy));

    size_t size = 0;
    SAY(miopenConvolutionForwardGetWorkSpaceSize(handle, w, x, convolution, y, &size));
    printf("workspace %zu\n", size);
    if (size) SAY(hipMalloc(&workspace, size));
    miopenConvAlgoPerf_t found[8];
    int count = 0;
    SAY(miopenFindConvolutionForwardAlgorithm(handle, x, dx, w, dw, convolution, y, dy, 8, &count, found, workspace, size,
                                              false));
    printf("algorithms %d\n", count);
    if (count) {
        int chosen = 0;
        for (int i = 1; i < count; i++)
            if (found[i].fwd_algo < found[chosen].fwd_algo) chosen = i;
        printf("algorithm %d with %zu bytes\n", found[chosen].fwd_algo, found[chosen].memory);
        for (int i = 0; i < ROUNDS; i++)
            OK(miopenConvolutionForward(handle, &one, x, dx, w, dw, convolution, found[chosen].fwd_algo, &zero, y, dy, workspace,
                                        size));
    }
    SAY(hipStreamSynchronize(stream));
    SAY(hipGetLastError());
    SAY(miopenDestroy(handle));
    SAY(hipStreamDestroy(stream));
    return ended();
}
