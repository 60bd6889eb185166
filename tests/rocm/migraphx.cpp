// MIGraphX: a small network that it compiles for the device in processes of its own, and evaluates.
#include "said.h"
#include <migraphx/migraphx.h>

static migraphx_instruction_t added(migraphx_module_t module, const char *name, const_migraphx_instruction_t *operands,
                                    size_t count) {
    migraphx_operation_t operation;
    migraphx_instructions_t inputs;
    migraphx_instruction_t instruction = nullptr;
    OK(migraphx_operation_create(&operation, name, "{}"));
    OK(migraphx_instructions_create(&inputs, operands, count));
    SAY(migraphx_module_add_instruction(&instruction, module, operation, inputs));
    return instruction;
}

int main() {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    size_t lengths[2] = {64, 64};
    migraphx_shape_t shape;
    migraphx_program_t program;
    migraphx_module_t module;
    SAY(migraphx_shape_create(&shape, migraphx_shape_float_type, lengths, 2));
    SAY(migraphx_program_create(&program));
    SAY(migraphx_program_get_main_module(&module, program));
    migraphx_instruction_t x, w;
    SAY(migraphx_module_add_parameter(&x, module, "x", shape));
    SAY(migraphx_module_add_parameter(&w, module, "w", shape));
    const_migraphx_instruction_t factors[2] = {x, w};
    const_migraphx_instruction_t product = added(module, "dot", factors, 2);
    const_migraphx_instruction_t sum[2] = {added(module, "relu", &product, 1), x};
    const_migraphx_instruction_t last = added(module, "add", sum, 2);
    migraphx_instructions_t results;
    migraphx_instruction_t returned;
    SAY(migraphx_instructions_create(&results, &last, 1));
    SAY(migraphx_module_add_return(&returned, module, results));

    migraphx_target_t target;
    migraphx_compile_options_t options;
    SAY(migraphx_target_create(&target, "gpu"));
    SAY(migraphx_compile_options_create(&options));
    SAY(migraphx_compile_options_set_offload_copy(options, 1));
    SAY(migraphx_program_compile(program, target, options));

    migraphx_program_parameters_t parameters;
    SAY(migraphx_program_parameters_create(&parameters));
    const char *const names[2] = {"x", "w"};
    for (size_t i = 0; i < 2; i++) {
        migraphx_argument_t argument;
        SAY(migraphx_argument_generate(&argument, shape, i));
        SAY(migraphx_program_parameters_add(parameters, names[i], argument));
    }
    for (int i = 0; i < ROUNDS; i++) {
        migraphx_arguments_t outputs = nullptr;
        OK(migraphx_program_run(&outputs, program, parameters));
        OK(migraphx_arguments_destroy(outputs));
    }
    SAY(hipDeviceSynchronize());
    SAY(hipGetLastError());
    SAY(migraphx_program_destroy(program));
    return ended();
}
