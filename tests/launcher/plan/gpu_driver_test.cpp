#include "launcher/plan/gpus.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("the driver's version and the GPU's model are read where they stand") {
    CHECK(parse_driver_version(
              "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32\n"
              "GCC version:  gcc version 12.2.0\n") == "535.129.03");
    CHECK(parse_driver_version("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release "
                               "Build\n") == "550.54.15");
    for (const char* none : {"", "GCC version: 12.2.0\n", "NVRM version:", "NVRM version: unknown\n550.1\n"})
        CHECK_FALSE(parse_driver_version(none));
    CHECK(parse_gpu_model("Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 17\n") == "NVIDIA H100 80GB HBM3");
    for (const char* none : {"", "IRQ: 17\n", "Model:  \n"}) CHECK_FALSE(parse_gpu_model(none));
}

}  // namespace ddprun
