// Compiles a kernel at run time and launches it; `computes` checks results.
#include "hip.h"

static const char *const SOURCE =
    "extern \"C\" __global__ void saxpy(float a, float *x, float *y, int n) {"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;"
    "    if (i < n) y[i] = a * x[i] + y[i];"
    "}";

int main(void) {
    open_runtime();
    void *program = NULL, *module = NULL, *kernel = NULL, *x = NULL, *y = NULL;
    const char *options[] = {"--gpu-architecture=gfx803"};
    size_t size = 0;

    CALL(hiprtcCreateProgram, &program, SOURCE, "saxpy.hip", 0, NULL, NULL);
    CALL(hiprtcCompileProgram, program, 1, options);
    CALL(hiprtcGetCodeSize, program, &size);
    char *code = malloc(size);
    CALL(hiprtcGetCode, program, code);

    CALL(hipModuleLoadData, &module, code);
    CALL(hipModuleGetFunction, &kernel, module, "saxpy");
    CALL(hipMalloc, &x, (size_t)4096);
    CALL(hipMalloc, &y, (size_t)4096);
    float a = 2;
    int n = 1024;
    void *arguments[] = {&a, &x, &y, &n};
    CALL(hipModuleLaunchKernel, kernel, 4, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL);
    CALL(hipDeviceSynchronize);
    return 0;
}
