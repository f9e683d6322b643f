#include "launcher/agent/node_traits.hpp"

#include <algorithm>
#include <fstream>

#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

void write_text(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
}

std::string value_of(const std::vector<NodeTrait>& traits, const std::string& name) {
    for (const NodeTrait& trait : traits) {
        if (trait.name == name) return trait.value;
    }
    return "no such trait";
}

LaunchOptions running(const fs::path& program) {
    LaunchOptions options;
    options.workers.push_back({{program.string()}, {}});
    return options;
}

}  // namespace

TEST_CASE("compared are the variables that change how workers run, but for those of one node or rank") {
    const auto traits = traits_of({{"CUDA_MODULE_LOADING", "LAZY"},
                                   {"CUDA_VISIBLE_DEVICES", "0,1"},
                                   {"HOME", "/h"},
                                   {"NCCL_DEBUG", ""},
                                   {"NCCL_HOSTID", "gpu07"},
                                   {"OMPI_COMM_WORLD_RANK", "1"},
                                   {"OMP_NUM_THREADS", "4"},
                                   {"PYTHONPATH", "/p"},
                                   {"NCCL_" + std::string(kMaxTraitName, 'x'), "1"},
                                   {"PYTHON_EXEC", "/venv/bin/python3"}});
    CHECK(traits == std::vector<NodeTrait>{{"CUDA_MODULE_LOADING", "LAZY"},
                                           {"NCCL_DEBUG", ""},
                                           {"OMP_NUM_THREADS", "4"},
                                           {"PYTHONPATH", "/p"},
                                           {"PYTHON_EXEC", "/venv/bin/python3"}});
}

TEST_CASE("values that are long or secret are told apart by a digest") {
    CHECK(variable_trait("NCCL_DEBUG", "INFO") == "INFO");
    CHECK(variable_trait("NCCL_IB_PKEY", "3") == "3");
    for (const char* name :
         {"NCCL_TOKEN", "PYTHON_API_KEY", "CUDA_SECRET_X", "PYTHON_PASSWORD", "OMP_CREDENTIALS"}) {
        const std::string shown = variable_trait(name, "hunter2");
        CHECK_THAT(shown, Catch::StartsWith("(digest ") && !Catch::Contains("hunter2"));
        CHECK(shown != variable_trait(name, "hunter3"));
    }
    std::string path;
    for (int i = 0; i < 100; ++i) path += "/größe";
    const std::string shown = variable_trait("PYTHONPATH", path);
    CHECK_THAT(shown, Catch::StartsWith("/größe/größe") && Catch::Contains("… (digest "));
    CHECK(shown.size() <= kMaxTraitValue);
    CHECK(shown != variable_trait("PYTHONPATH", path + "x"));
}

TEST_CASE("contents are told apart by their size, their beginning and their end") {
    TemporaryFolder folder;
    const fs::path file = folder.path() / "program";
    const std::string text(3 * kContentsRead, 'x');
    const auto contents = [&file](const std::string& bytes) {
        write_text(file, bytes);
        return contents_of(file).value_or("none");
    };
    const std::string same = contents(text);
    CHECK_THAT(same, Catch::EndsWith(", 786432 bytes"));
    CHECK(contents(text) == same);
    CHECK(contents(text + "x") != same);
    CHECK(contents("y" + text.substr(1)) != same);
    CHECK(contents(text.substr(1) + "y") != same);
    CHECK(contents("") == "cbf29ce484222325, 0 bytes");
    CHECK(contents("ab") != contents("ba"));
    CHECK_FALSE(contents_of(folder.path()));
    CHECK_FALSE(contents_of(folder.path() / "missing"));
    CHECK_FALSE(contents_of("/dev/zero"));
}

TEST_CASE("a node tells of its program, its GPUs and its variables") {
    TemporaryFolder folder;
    const fs::path program = folder.path() / "train", script = folder.path() / "train.py";
    write_text(program, "#!/bin/sh\n");
    fs::permissions(program, fs::perms::owner_all);
    write_text(script, "pass\n");
    write_text(folder.path() / "driver/version", "NVRM version: Module  535.129.03  Thu\n");
    write_text(folder.path() / "driver/gpus/0000:01:00.0/information", "Model: B\n");
    write_text(folder.path() / "driver/gpus/0000:02:00.0/information", "Model: A\n");
    write_text(folder.path() / "driver/gpus/0000:03:00.0/information", "Model: B\n");
    LaunchOptions options = running(program);
    options.python_script = script.string();
    options.environment = {{"NCCL_DEBUG", "INFO"}};
    const auto traits = node_traits(options, folder.path() / "driver");
    CHECK(value_of(traits, "the executable").ends_with("/train"));
    CHECK(value_of(traits, "the executable's contents") == contents_of(program));
    CHECK(value_of(traits, "the script's contents") == contents_of(script));
    CHECK(value_of(traits, "the GPU driver") == "535.129.03");
    CHECK(value_of(traits, "the GPU model") == "A, B");
    CHECK(value_of(traits, "NCCL_DEBUG") == "INFO");
    CHECK(std::count_if(traits.begin(), traits.end(),
                        [](const NodeTrait& trait) { return trait.of_program; }) == 6);
    CHECK(value_of(traits, "--run-path") == "not given");
    CHECK(value_of(traits, "--legacy-launch") == "not given");
    options.run_path = true;
    options.legacy_launch = "--local_rank";
    const auto others = node_traits(options, folder.path() / "driver");
    CHECK(value_of(others, "--run-path") == "given");
    CHECK(value_of(others, "--legacy-launch") == "--local_rank");
}

TEST_CASE("what a node does not have is said as well, and no more than may be") {
    LaunchOptions options = running("no-such-program");
    for (std::size_t i = 0; i < 2 * kMaxNodeTraits; ++i)
        options.environment["NCCL_" + std::to_string(i)] = std::string(1000, 'v');
    const auto traits = node_traits(options, "/nonexistent");
    CHECK(value_of(traits, "the executable") == "not found");
    CHECK(value_of(traits, "the executable's contents") == "no such trait");
    CHECK(value_of(traits, "the GPU driver") == "none");
    CHECK(value_of(traits, "the GPU model") == "none");
    CHECK(traits.size() == kMaxNodeTraits);
    for (const NodeTrait& trait : traits) CHECK(trait.value.size() <= kMaxTraitValue);
}

}  // namespace ddprun
