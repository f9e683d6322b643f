#include "collectives/session/host_identity.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>
#include <vector>

#include "collectives/call/call.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun::inline detail {
namespace {

constexpr std::string_view kProcesses = "/pid:[";

// The namespace at the end, of processes or of IPC; empty where a user has given the identity.
std::string_view namespace_of(std::string_view identity) {
    const std::string_view last = identity.substr(std::min(identity.rfind('/'), identity.size()));
    return last.starts_with(kProcesses) || last.starts_with(kWithinIpc) ? last : std::string_view();
}

// What the machine itself is called in an identity; empty where a user has given that.
std::string_view boot_of(std::string_view identity) {
    const std::string_view machine = identity.substr(0, identity.size() - namespace_of(identity).size());
    const auto slash = machine.rfind('/');
    return machine.size() == identity.size() || slash == std::string_view::npos ? std::string_view()
                                                                                : machine.substr(slash + 1);
}

std::string own_namespace(const char* kind) {
    std::error_code error;
    const auto target = std::filesystem::read_symlink(std::string("/proc/self/ns/") + kind, error);
    return error ? fmt::format("{}:unknown", kind) : target.string();
}

// What a rank has told: its identity, and `<boot>/<IPC namespace>`, in which memory has numbers; empty where it has none.
struct Told {
    std::string identity;
    std::string numbers;

    explicit Told(const std::string& text) : identity(text) {
        const std::string_view ipc = namespace_of(text);
        const std::string_view before = std::string_view(text).substr(0, text.size() - ipc.size());
        if (!ipc.starts_with(kWithinIpc) || !namespace_of(before).starts_with(kProcesses)) return;
        identity = before;
        if (const auto boot = boot_of(before); !boot.empty()) numbers = fmt::format("{}{}", boot, ipc);
    }
};

}  // namespace

std::string host_identity() {
    std::string boot;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    std::string identity = fmt::format("{}/{}/{}", host_name(), boot, own_namespace("pid"));
    std::replace_if(
        identity.begin(), identity.end(), [](char c) { return c == ' ' || c == '\n'; }, '_');
    return identity;
}

std::string told_identity(const std::string& given) {
    return given.empty() ? host_identity() + '/' + own_namespace("ipc") : given;
}

Membership join_containers(Membership& membership) {
    struct Containers {
        std::string first;  // identity
        bool are_several = false;
    };
    std::map<std::string, Containers> machines;
    Membership apart = membership;
    for (Member& member : apart.members) {
        const Told told(member.host);
        member.host = told.identity;
        Containers& all = machines.try_emplace(told.numbers, Containers{told.identity}).first->second;
        all.are_several = all.are_several || namespace_of(told.identity) != namespace_of(all.first);
    }
    for (Member& member : membership.members) {
        const Told told(member.host);
        const Containers& all = machines.at(told.numbers);
        const bool joins = !told.numbers.empty() && all.are_several;
        member.host = joins ? all.first.substr(0, all.first.find('/') + 1) + told.numbers : told.identity;
    }
    if (!ranks_across_hosts(membership)) membership.members = apart.members;
    return apart;
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
        seen.push_back(namespace_of(host));
    }
    if (std::ranges::all_of(seen, [&](std::string_view one) { return one == seen.front(); }))
        return std::nullopt;
    return fmt::format(
        "ddprun: ranks {} are in containers of one machine that do not see each other's processes, and so talk by TCP, which "
        "takes 2 to 7 times as long as shared memory; that they have where containers of one user share an IPC namespace "
        "(--ipc=host), or a PID namespace and one DDPRUN_HOSTID",
        places);
}

}  // namespace ddprun::inline detail
