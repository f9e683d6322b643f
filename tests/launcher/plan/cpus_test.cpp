#include "rendezvous/system/resource_limits.hpp"

#include <sched.h>

#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

// A cgroup tree in a folder: add() files, then ask for the quota.
class CgroupTree {
  public:
    explicit CgroupTree(const std::string& self) : self_(folder_.file("self", self)) {}

    CgroupTree& add(const std::string& path, const std::string& text) {
        fs::create_directories((folder_.path() / path).parent_path());
        folder_.file(path, text);
        return *this;
    }

    std::optional<double> quota() const { return find_cpu_quota(self_, folder_.path()); }

  private:
    TemporaryFolder folder_;
    std::string self_;
};

}  // namespace

TEST_CASE("the text of cpu.max") {
    CHECK(parse_cpu_max("150000 100000\n") == 1.5);
    CHECK(parse_cpu_max("400000 100000") == 4.0);
    for (const char* text :
         {"max 100000\n", "", "150000", "x 100000", "150000 0", "0 100000", "-5 100000", "1 2 3"}) {
        INFO("'" << text << "'");
        CHECK_FALSE(parse_cpu_max(text).has_value());
    }
}

TEST_CASE("the texts of a v1 quota") {
    CHECK(parse_cfs_quota("250000\n", "100000\n") == 2.5);
    CHECK_FALSE(parse_cfs_quota("-1\n", "100000\n").has_value());
    CHECK_FALSE(parse_cfs_quota("", "100000").has_value());
    CHECK_FALSE(parse_cfs_quota("100", "0").has_value());
}

TEST_CASE("the folders in /proc/self/cgroup") {
    CHECK(parse_cgroup_folders("0::/user.slice/a:b\n") == CgroupFolders{"/user.slice/a:b", std::nullopt});
    CHECK(parse_cgroup_folders("12:cpuset:/s\n4:cpu,cpuacct:/job/x\n1:name=systemd:/\n") ==
          CgroupFolders{std::nullopt, "/job/x"});
    CHECK(parse_cgroup_folders("2:cpuacct:/\n1:cpu:/c\n0::/\n") == CgroupFolders{"/", "/c"});
    CHECK(parse_cgroup_folders("nonsense\n\n::\n") == CgroupFolders{});
}

TEST_CASE("the tightest quota up the tree counts") {
    CgroupTree tree("0::/a/b\n");
    CHECK_FALSE(tree.quota().has_value());
    tree.add("a/b/cpu.max", "max 100000\n");
    CHECK_FALSE(tree.quota().has_value());
    tree.add("a/b/cpu.max", "600000 100000\n")
        .add("a/cpu.max", "250000 100000\n")
        .add("cpu.max", "900000 100000\n");
    CHECK(tree.quota() == 2.5);
    tree.add("other/cpu.max", "100 100000\n");
    CHECK(tree.quota() == 2.5);
}

TEST_CASE("in a container only the root of the hierarchy can be seen") {
    CHECK(CgroupTree("0::/docker/123\n").add("cpu.max", "200000 100000\n").quota() == 2.0);
    CHECK(CgroupTree("0::/../..\n").add("cpu.max", "300000 100000\n").quota() == 3.0);
    CHECK(CgroupTree("0::/\n").add("cpu.max", "100000 100000\n").quota() == 1.0);
}

TEST_CASE("cgroup v1 has its quota under either name of the hierarchy") {
    for (const char* name : {"cpu", "cpu,cpuacct"}) {
        CgroupTree tree("3:cpu,cpuacct:/job\n0::/\n");
        tree.add(std::string(name) + "/job/cpu.cfs_quota_us", "50000\n");
        CHECK_FALSE(tree.quota().has_value());
        tree.add(std::string(name) + "/job/cpu.cfs_period_us", "100000\n");
        CHECK(tree.quota() == 0.5);
    }
}

TEST_CASE("a missing /proc/self/cgroup is no quota") {
    CHECK_FALSE(find_cpu_quota("/nonexistent/self", "/nonexistent").has_value());
}

TEST_CASE("the affinity is that of this process") {
    cpu_set_t before;
    REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
    const std::vector<int> all = affinity_cpus();
    CHECK(static_cast<int>(all.size()) == CPU_COUNT(&before));
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(all.back(), &one);
    REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
    const std::vector<int> pinned = affinity_cpus();
    REQUIRE(::sched_setaffinity(0, sizeof before, &before) == 0);
    CHECK(pinned == std::vector<int>{all.back()});
}

TEST_CASE("usable CPUs") {
    CHECK(usable_cpus(8, std::nullopt) == 8);
    CHECK(usable_cpus(8, 3.9) == 3);
    CHECK(usable_cpus(2, 16.0) == 2);
    CHECK(usable_cpus(8, 0.5) == 1);
}

}  // namespace ddprun
