#include "launcher/features/local_cache.hpp"

#include <fstream>

#include "launcher/folder_claim.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

}  // namespace

TEST_CASE("local cache: folders for its user alone, named by variables, and gone with their owner") {
    const TemporaryFolder temporary;
    {
        const LocalCache cache(temporary.path().string());
        CHECK(cache.is_local());
        CHECK(claim_on(cache.folder()) == ClaimState::held);
        CHECK((fs::status(cache.folder()).permissions() & fs::perms::all) == fs::perms(0700));
        const Environment variables = cache.variables();
        CHECK(variables.size() == 5);
        CHECK(variables.at("TRITON_CACHE_DIR") == (cache.folder() / "local_cache/triton").string());
        for (const auto& [name, folder] : variables) {
            CAPTURE(name);
            CHECK(fs::is_directory(folder));
            std::ofstream(fs::path(folder) / "kernel") << "x";
        }
        const LocalCache other(temporary.path().string());
        CHECK(other.folder() != cache.folder());
    }
    CHECK(fs::is_empty(temporary.path()));
}

TEST_CASE("local cache: one that cannot be made names the flag") {
    CHECK_THROWS_WITH(LocalCache("/dev/null/none"), Catch::Contains("--local-cache"));
}

TEST_CASE("local cache: a cache that all nodes would share is named") {
    const auto shared_of = [](const Environment& environment) {
        return shared_cache(environment,
                            [](const fs::path& path) { return path.string().starts_with("/nfs"); })
            .value_or("none");
    };
    CHECK(shared_of({{"HOME", "/nfs/me"}}) == "TRITON_CACHE_DIR (/nfs/me/.triton)");
    CHECK(shared_of({{"HOME", "/nfs/me"}, {"TRITON_CACHE_DIR", "/tmp/t"}}) ==
          "CUDA_CACHE_PATH (/nfs/me/.nv)");
    CHECK(shared_of({{"HOME", "/nfs/me"}, {"TRITON_CACHE_DIR", "/tmp/t"}, {"CUDA_CACHE_PATH", "/tmp/c"}}) ==
          "none");
    CHECK(shared_of({{"HOME", "/home/me"}}) == "none");
    CHECK(shared_of({{"HOME", "/home/me"}, {"TORCHINDUCTOR_CACHE_DIR", "/nfs/i"}}) ==
          "TORCHINDUCTOR_CACHE_DIR (/nfs/i)");
    CHECK(shared_of({}) == "none");
    CHECK_FALSE(is_on_network("/proc/self"));
    CHECK_FALSE(is_on_network("/no/such/folder"));
    CHECK_FALSE(is_on_network("relative"));
}

TEST_CASE("local cache: what a killed launcher has left is swept, whatever is in it") {
    const TemporaryFolder temporary;
    const fs::path left = temporary.path() / "ddprun_aB3dE6";
    fs::create_directories(left / "local_cache/triton/deep/er");
    for (int i = 0; i < 200; ++i) std::ofstream(left / "local_cache/triton" / std::to_string(i)) << "x";
    // Of that name only where a LocalCache has it.
    const fs::path kept = temporary.path() / "ddprun_aB3dE7";
    fs::create_directories(kept / "0" / "local_cache");
    std::ofstream(kept / "0" / "local_cache" / "model.pt") << "x";
    for (const fs::path& folder : {left, kept}) {
        fs::permissions(folder, fs::perms(0700));
        fs::last_write_time(folder, fs::file_time_type::clock::now() - std::chrono::hours(25));
    }
    sweep_temporary_folders(temporary.path());
    CHECK_FALSE(fs::exists(left));
    CHECK(fs::exists(kept));
}

}  // namespace ddprun
