#include "rendezvous/system/resource_limits.hpp"

#include <map>

#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

std::optional<std::size_t> limit_of(std::string_view own_groups,
                                    const std::map<std::string, std::string>& files) {
    return control_group_limit(own_groups, [&files](const std::string& path) -> std::optional<std::string> {
        const auto found = files.find(path);
        return found == files.end() ? std::nullopt : std::optional(found->second);
    });
}

}  // namespace

TEST_CASE("the least limit of a control group and of those above it counts", "[memory_limit]") {
    const std::string root = "/sys/fs/cgroup";
    CHECK(limit_of("0::/\n", {}) == std::nullopt);
    CHECK(limit_of("0::/\n", {{root + "/memory.max", "1000\n"}}) == 1000U);
    CHECK(limit_of("0::/a/b\n", {{root + "/a/b/memory.max", "max\n"}, {root + "/a/memory.max", "700\n"}}) ==
          700U);
    CHECK(limit_of("0::/a/b\n", {{root + "/a/b/memory.max", "500\n"}, {root + "/a/memory.max", "700\n"}}) ==
          500U);
    // Of a container that does not see its own path.
    CHECK(limit_of("0::/../x\n", {{root + "/memory.max", "300\n"}}) == 300U);
    const std::string old = root + "/memory/job/memory.limit_in_bytes";
    CHECK(limit_of("5:cpu,cpuacct:/job\n4:memory:/job\n0::/\n", {{old, "800\n"}}) == 800U);
    CHECK(limit_of("5:cpu:/job\n", {{old, "800\n"}}) == std::nullopt);
}

TEST_CASE("nonsense in a control group's files limits nothing", "[memory_limit]") {
    const std::string file = "/sys/fs/cgroup/memory.max";
    for (const char* text : {"", "\n", "-5\n", "0\n", "many\n", "99999999999999999999999\n"})
        CHECK(limit_of("0::/\n", {{file, text}}) == std::nullopt);
    for (const char* groups : {"", "\n", "0\n", "0:\n", "::::", "memory"})
        CHECK(limit_of(groups, {{file, "5\n"}}).value_or(5) == 5U);
}
