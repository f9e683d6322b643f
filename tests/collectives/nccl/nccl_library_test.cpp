// How NCCL and the CUDA driver are found, and what is said when they are not.
#include "collectives/nccl/nccl_library.hpp"
#include "collectives/nccl/nccl_launch.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "collectives/grad_buckets.hpp"
#include "collectives/nccl/nccl_join.hpp"
#include "collectives/training.hpp"
#include "tests/collectives/nccl/nccl_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

std::string error_text(const std::function<void()>& body) {
    return expect_error(CollectiveErrorCode::system, {}, body).what();
}

std::optional<NcclSettings> settings(const Environment& environment, const CommunicatorOptions& options = {},
                                     int local_rank = -1) {
    return read_nccl_settings(environment, options, local_rank);
}

std::string settings_error(const Environment& environment) {
    return expect_error(CollectiveErrorCode::invalid_argument, {}, [&] { settings(environment); }).what();
}

}  // namespace

TEST_CASE("a missing NCCL is named, with what was tried and what helps") {
    const std::string text = error_text([] { NcclLibrary::open("/nowhere/libnccl.so.2"); });
    CHECK(text.find("NCCL cannot be opened (/nowhere/libnccl.so.2: cannot open shared object file") !=
          std::string::npos);
    CHECK(text.find("set DDPRUN_NCCL_LIBRARY to the path of a libnccl.so.2, or use DDPRUN_BACKEND=cpu") !=
          std::string::npos);
}

TEST_CASE("NCCL of a Python package is found by the interpreter's folders, in their order") {
    namespace fs = std::filesystem;
    const fs::path scratch = fs::temp_directory_path() / ("nccl_library_test." + std::to_string(::getpid()));
    const auto put = [&](const std::string& folder) {
        const fs::path library = scratch / folder / "nvidia/nccl/lib/libnccl.so.2";
        fs::create_directories(library.parent_path());
        fs::copy_file(DDPRUN_STANDIN_NCCL, library);
        return library.string();
    };
    const auto python = [&](const std::string& folder) {
        fs::create_directories(scratch / folder / "bin");
        const fs::path program = scratch / folder / "bin/python3";
        std::ofstream(program) << "#!/bin/sh\n";
        return program.string();
    };
    const auto at = [&](const std::string& folder) { return (scratch / folder).string(); };
    const std::string of_path = put("path/lib/python3.11/dist-packages");
    put("path/lib/python3.9/site-packages");
    python("path");
    python("none");
    const std::string of_venv = put("venv/lib/python3.11/site-packages");
    const std::string of_conda = put("conda/lib/python3.13/site-packages");
    const std::string of_base = put("base/lib/python3.12/site-packages");
    const std::string of_user = put("home/.local/lib/python3.11/site-packages");
    const std::string told = put("told");
    // A virtual environment's interpreter is a link to the one that it is of.
    fs::create_directories(scratch / "linked/bin");
    fs::create_symlink(python("base"), scratch / "linked/bin/python3");

    CHECK(packaged_nccl({{"PATH", at("none") + ":" + at("path/bin")}}, "") == of_path);
    CHECK(packaged_nccl({{"PATH", at("path/bin")}, {"VIRTUAL_ENV", at("venv")}}, "") == of_venv);
    CHECK(packaged_nccl({{"PATH", at("path/bin")}, {"CONDA_PREFIX", at("conda")}}, "") == of_conda);
    CHECK(packaged_nccl({{"PATH", at("path/bin")}, {"PYTHON_EXEC", at("linked/bin/python3")}}, "") ==
          of_base);
    CHECK(packaged_nccl({{"VIRTUAL_ENV", at("venv")}}, at("linked/bin/python3")) == of_base);
    CHECK(packaged_nccl({{"VIRTUAL_ENV", at("venv")}}, at("linked/bin/train")) == of_venv);
    CHECK(packaged_nccl({{"VIRTUAL_ENV", at("venv")}, {"PYTHONPATH", "x:" + at("told")}}, "") == told);
    CHECK(packaged_nccl({{"PATH", at("none/bin")}, {"HOME", at("home")}}, "") == of_user);

    // The system's comes first, where it has one.
    if (::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL) == nullptr) {
        ::setenv("VIRTUAL_ENV", at("venv").c_str(), 1);
        CHECK(NcclLibrary::open("")->library.path() == of_venv);
        ::unsetenv("VIRTUAL_ENV");
    }
    fs::remove_all(scratch);
}

TEST_CASE("a missing driver is named, with what was tried and what helps") {
    const std::string text = error_text([] { CudaDriver::open("/nowhere/libcuda.so.1"); });
    CHECK(text.find("the CUDA driver cannot be opened (/nowhere/libcuda.so.1: ") != std::string::npos);
    CHECK(text.find("set DDPRUN_CUDA_LIBRARY to the path of its libcuda.so.1") != std::string::npos);
}

TEST_CASE("a library without a function is named") {
    const std::string text = error_text([] { NcclLibrary::open(DDPRUN_STANDIN_NCCL_BROKEN); });
    CHECK(text.find("NCCL, opened as " DDPRUN_STANDIN_NCCL_BROKEN ", has no function ncclCommAbort") !=
          std::string::npos);
    CHECK(error_text([] { NcclLibrary::open("libc.so.6"); }).find("has no function ncclGetVersion") !=
          std::string::npos);
    CHECK(error_text([] { CudaDriver::open("libc.so.6"); }).find("has no function cuInit") !=
          std::string::npos);
}

TEST_CASE("a rank alone is told what is wrong, too") {
    const StandIn standin("devices:1");
    CommunicatorOptions options;
    options.device = 3;
    const auto error = expect_error(CollectiveErrorCode::system, {0},
                                    [&] { Communicator::connect("tcp://127.0.0.1:1", 0, 1, options); });
    CHECK(std::string(error.what()).find("there is no CUDA device 3") != std::string::npos);
    CHECK(error.operation() == "join");
}

TEST_CASE("versions of NCCL as text") {
    CHECK(nccl_version_text(22809) == "2.28.9");
    CHECK(nccl_version_text(21903) == "2.19.3");
    CHECK(nccl_version_text(2708) == "2.7.8");
}

TEST_CASE("the backend and its device come from options and environment") {
    CHECK(!settings({}));
    CHECK(!settings({{"DDPRUN_BACKEND", "cpu"}}));
    CHECK(settings({{"DDPRUN_BACKEND", "nccl"}}));
    CommunicatorOptions options;
    options.backend = BackendChoice::nccl;
    CHECK(settings({}, options));
    CHECK(settings({}, options)->device == 0);
    CHECK(settings({{"LOCAL_RANK", "2"}}, options)->device == 2);
    CHECK(settings({{"LOCAL_RANK", "2"}}, options, 3)->device == 3);
    CHECK(settings({{"LOCAL_RANK", "2"}, {"DDPRUN_DEVICE", "0"}}, options, 3)->device == 0);
    options.device = 5;
    CHECK(settings({{"DDPRUN_DEVICE", "1"}}, options)->device == 5);
    options.backend = BackendChoice::cpu;
    CHECK(!settings({{"DDPRUN_BACKEND", "nccl"}}, options));
    const auto found =
        settings({{"DDPRUN_BACKEND", "nccl"}, {"DDPRUN_NCCL_LIBRARY", "/n"}, {"DDPRUN_CUDA_LIBRARY", "/c"}});
    CHECK(found->nccl_library == "/n");
    CHECK(found->cuda_library == "/c");
    CHECK(settings_error({{"DDPRUN_BACKEND", "gpu"}}) ==
          "join: DDPRUN_BACKEND='gpu' is neither cpu nor nccl");
    CHECK(settings_error({{"DDPRUN_BACKEND", "nccl"}, {"DDPRUN_DEVICE", "0x"}}) ==
          "join: DDPRUN_DEVICE='0x' is not the number of a device");
}

TEST_CASE("scalars of premul_sum have the type of the elements") {
    const auto first_two = [](const NcclScalar& scalar) {
        return std::to_integer<int>(scalar.bytes[0]) | std::to_integer<int>(scalar.bytes[1]) << 8;
    };
    CHECK(first_two(nccl_scalar(DataType::f16, -2)) == 0xc000);
    CHECK(first_two(nccl_scalar(DataType::bf16, -2)) == 0xc000);
    CHECK(first_two(nccl_scalar(DataType::f16, 1)) == 0x3c00);
    CHECK(first_two(nccl_scalar(DataType::bf16, 1)) == 0x3f80);
}

TEST_CASE("a stream without the NCCL backend is refused") {
    run_communicators(2, [](Communicator& comm) {
        float data = 1;
        int stream = 0;
        expect_error(CollectiveErrorCode::invalid_argument, {},
                     [&] { comm.async(&stream).all_reduce(std::span(&data, 1), ReduceOp::sum); });
        comm.barrier();
    });
}

TEST_CASE("what needs host memory is refused with NCCL, and the communicator goes on") {
    const StandIn standin;
    run_communicators(2, [](Communicator& comm) {
        const auto refused = [](const char* who, const std::function<void()>& body) {
            const std::string text = expect_error(CollectiveErrorCode::invalid_argument, {}, body).what();
            expect(text.starts_with(std::string(who) + ": NCCL"), text);
        };
        std::vector<float> state(3);
        const StatePart part{std::span(state)};
        refused("average", [&] { average(comm, 1.0); });
        refused("broadcast_state", [&] { broadcast_state(comm, std::span(&part, 1)); });
        refused("all_gather", [&] { comm.all_gather<float>({}, {{}, {}}); });
        refused("all_gather", [&] { comm.async().all_gather<float>({}, {{}, {}}); });
        refused("run_on_rank", [&] { run_on_rank(comm, 0, [] {}); });
        refused("allocate", [&] { comm.allocate<float>(3); });
        const std::vector<std::size_t> sizes{3};
        refused("allocate", [&] { GradBuckets<float> gradients(comm, sizes); });
        comm.barrier();
    });
}

TEST_CASE("NCCL itself has all functions, where it is installed") {
    for (const char* path : {"libnccl.so.2", "/usr/local/cuda/lib/libnccl.so.2"}) {
        void* const there = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (there == nullptr) continue;
        const auto nccl = NcclLibrary::open(path);
        CHECK(nccl->version >= kMinNcclVersion);
        CHECK(std::string(nccl->get_error_string(NcclResult::invalid_usage)).starts_with("invalid usage"));
        if (nccl->version >= 22800) CHECK((nccl->all_to_all != nullptr && nccl->gather != nullptr));
        return;
    }
    WARN("skipped: there is no NCCL on this machine");
}
