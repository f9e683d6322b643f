#include "collectives/session/host_identity.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <system_error>
#include <vector>

#include "collectives/call/call.hpp"
#include "collectives/shm/shm_segment.hpp"
#include "rendezvous/system/machine.hpp"
#include "rendezvous/system/shared_memory.hpp"

namespace ddprun {
inline namespace detail {
namespace {

constexpr std::string_view kProcesses = "/pid:[";

// What the machine itself is called in an identity; empty where a user has given that.
std::string_view boot_of(std::string_view identity) {
    const std::string_view machine = identity.substr(0, identity.rfind(kProcesses));
    const auto slash = machine.rfind('/');
    return machine.size() == identity.size() || slash == std::string_view::npos ? std::string_view()
                                                                                : machine.substr(slash + 1);
}

std::string_view processes_of(std::string_view identity) {
    return identity.substr(identity.rfind(kProcesses));
}

std::string own_boot() {
    std::string boot;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    return boot;
}

// `ipc:[4026531839]`; empty where the system does not say.
std::string own_namespace(const char* kind) {
    std::error_code error;
    return std::filesystem::read_symlink(std::string("/proc/self/ns/") + kind, error).string();
}

}  // namespace

std::string host_identity() {
    const std::string processes = own_namespace("pid");
    std::string identity =
        fmt::format("{}/{}/{}", host_name(), own_boot(), processes.empty() ? "pid:unknown" : processes);
    std::replace_if(
        identity.begin(), identity.end(), [](char c) { return c == ' ' || c == '\n'; }, '_');
    return identity;
}

std::string memory_numbers() {
    const std::string boot = own_boot();
    const std::string ipc = own_namespace("ipc");
    if (boot.empty() || ipc.empty() || own_namespace("pid").empty()) return {};
    return ShmMapping::create_by_number(1) ? fmt::format("{}/{}/{}", boot, ipc, ::geteuid()) : std::string();
}

void join_containers(Membership& membership) {
    struct Containers {
        std::set<std::string_view> processes;
        int ranks = 0;
    };
    std::map<std::string_view, Containers> machines;
    for (Member& member : membership.members) {
        member.joined.clear();
        if (member.numbers.empty() || boot_of(member.host).empty()) continue;
        Containers& containers = machines[member.numbers];
        containers.processes.insert(processes_of(member.host));
        ++containers.ranks;
    }
    for (Member& member : membership.members) {
        const auto containers = machines.find(member.numbers);
        if (containers != machines.end() && !boot_of(member.host).empty() &&
            containers->second.processes.size() > 1 && containers->second.ranks <= kShmMaxRanks)
            member.joined = member.numbers;
    }
    if (ranks_across_hosts(membership)) return;
    for (Member& member : membership.members) member.joined.clear();
}

std::optional<std::string> notice_of_containers(Membership membership, bool joined_share) {
    for (Member& member : membership.members) {
        if (!joined_share) member.joined.clear();
    }
    const std::string_view own = membership.member(membership.rank).host;
    if (boot_of(own).empty()) return std::nullopt;
    std::string places;
    std::vector<std::string_view> seen;
    for (const std::vector<int>& ranks : ranks_by_host(membership)) {
        const std::string_view host = membership.member(ranks.front()).host;
        if (boot_of(host) != boot_of(own)) continue;
        if (seen.empty() && ranks.front() != membership.rank) return std::nullopt;
        places += fmt::format("{}{} on {}", seen.empty() ? "" : " and ", list_of_ranks(ranks),
                              host.substr(0, host.find('/')));
        seen.push_back(processes_of(host));
    }
    if (std::ranges::all_of(seen, [&](std::string_view processes) { return processes == seen.front(); }))
        return std::nullopt;
    return fmt::format(
        "ddprun: ranks {} are in containers of one machine that do not see each other's processes, and so talk by TCP, which "
        "takes 2 to 7 times as long as shared memory; that they have where containers of one user share an IPC namespace "
        "(--ipc=host) and all machines have as many ranks, or where they share a PID namespace and have one DDPRUN_HOSTID",
        places);
}

}  // namespace detail
}  // namespace ddprun
