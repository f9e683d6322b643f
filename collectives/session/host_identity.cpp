#include "collectives/session/host_identity.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "collectives/call/call.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun::inline detail {
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

}  // namespace

std::string host_identity() {
    std::string boot;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    std::error_code error;
    const std::string processes = std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
    std::string identity = fmt::format("{}/{}/{}", host_name(), boot, error ? "pid:unknown" : processes);
    std::replace_if(
        identity.begin(), identity.end(), [](char c) { return c == ' ' || c == '\n'; }, '_');
    return identity;
}

std::optional<std::string> notice_of_containers(const Membership& membership) {
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
        "takes 2 to 7 times as long as shared memory; that they have where the containers share a PID namespace and have "
        "one DDPRUN_HOSTID",
        places);
}

}  // namespace ddprun::inline detail
