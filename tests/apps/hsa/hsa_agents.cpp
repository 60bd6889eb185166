// Stands in for AMD's HSA runtime below the simulated HIP runtime: lists the host's processor, then the GPUs, with their PCI
// addresses as the driver tells them. There a partition's number lies where the function does.

#include <cstdint>
#include <cstdlib>

namespace {

// Numbers of `hsa.h` and `hsa_ext_amd.h`.
constexpr uint32_t SUCCESS = 0, INVALID_ARGUMENT = 0x1001, DEVICE = 17, GPU = 1, BDFID = 0xa006, DOMAIN = 0xa00f;

constexpr uint32_t FIRST_BUS = 0xc1;

uint32_t setting(const char *name) {
    const char *value = std::getenv(name);
    return value ? static_cast<uint32_t>(std::atoi(value)) : 1;
}

} // namespace

struct Agent {
    uint64_t handle; // 1: the processor
};

extern "C" uint32_t hsa_iterate_agents(uint32_t (*found)(Agent, void *), void *data) {
    for (uint64_t handle = 1; handle < 2 + setting("HIP_SIM_DEVICES"); handle++)
        if (uint32_t status = found({handle}, data)) return status;
    return SUCCESS;
}

extern "C" uint32_t hsa_agent_get_info(Agent agent, uint32_t attribute, void *value) {
    uint32_t number = static_cast<uint32_t>(agent.handle) - 2, partitions = setting("HIP_SIM_PARTITIONS");
    uint32_t *answer = static_cast<uint32_t *>(value);
    switch (attribute) {
    case DEVICE: *answer = agent.handle == 1 ? 0 : GPU; return SUCCESS;
    case BDFID: *answer = (FIRST_BUS + number / partitions) << 8 | number % partitions; return SUCCESS;
    case DOMAIN: *answer = 0; return SUCCESS;
    default: return INVALID_ARGUMENT;
    }
}
