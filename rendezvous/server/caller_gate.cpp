#include "rendezvous/server/caller_gate.hpp"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace ddprun::inline job {

namespace ip = boost::asio::ip;

CallerGate::Pass CallerGate::judge(const Caller& caller) const {
    switch (caller.owner.kind) {
        case ConnectionOwner::Kind::user:
            return caller.owner.is_other_than(own_) ? Pass::nothing : Pass::everything;
        case ConnectionOwner::Kind::closed: return Pass::nothing;
        // A job on such a system could not use its own store otherwise.
        case ConnectionOwner::Kind::untold: return Pass::everything;
        case ConnectionOwner::Kind::elsewhere: break;
    }
    const bool is_of_round = machines_.contains(comparable(caller.address));
    return is_of_round && !through_doors_ ? Pass::everything : Pass::agents_only;
}

bool CallerGate::lets_door_in(const Caller& caller) const {
    return judge(caller) == Pass::everything || machines_.contains(comparable(caller.address));
}

void CallerGate::begin_round(const std::vector<ip::address>& machines, bool through_doors) {
    machines_.clear();
    through_doors_ = through_doors;
    admit(machines);
}

void CallerGate::admit(const std::vector<ip::address>& machines) {
    for (const ip::address& address : machines) machines_.insert(comparable(address));
}

std::optional<std::string> CallerGate::tell_untold(const Caller& caller) {
    if (caller.owner.kind != ConnectionOwner::Kind::untold || std::exchange(is_untold_told_, true))
        return std::nullopt;
    return "this system does not say whose connections from this machine are: all its users may use the job's port";
}

std::optional<std::string> CallerGate::tell_turned_away(const Caller& caller) {
    if (caller.owner.kind == ConnectionOwner::Kind::closed) return std::nullopt;
    std::string text;
    if (caller.owner.kind == ConnectionOwner::Kind::user)
        text = fmt::format(
            "user {} of this machine was turned away from the job's port: only user {} and root may use it",
            caller.owner.uid, own_);
    else
        text = fmt::format("a store client at {} was turned away: {}", comparable(caller.address).to_string(),
                           through_doors_ ? "workers on other machines come through their agents' doors"
                                          : "no node of this job's round calls from there");
    return tell_once(text);
}

std::optional<std::string> CallerGate::tell_turned_away(const Caller& caller, const std::string& why) {
    return tell_once(
        fmt::format("an agent at {} was turned away: {}", comparable(caller.address).to_string(), why));
}

std::optional<std::string> CallerGate::tell_once(const std::string& text) {
    if (told_.size() >= kMaxTold) return std::nullopt;
    return told_.insert(text).second ? std::optional(text) : std::nullopt;
}

ip::address comparable(const ip::address& address) {
    if (address.is_v4()) return address;
    const ip::address_v6 six = address.to_v6();
    if (six.is_v4_mapped()) return ip::make_address_v4(ip::v4_mapped, six);
    return ip::address_v6(six.to_bytes());
}

namespace {

std::size_t open_files_allowed() {
    rlimit limit{};
    const bool is_known = ::getrlimit(RLIMIT_NOFILE, &limit) == 0;
    return is_known ? static_cast<std::size_t>(limit.rlim_cur) : std::numeric_limits<std::size_t>::max();
}

}  // namespace

ConnectionLimit::ConnectionLimit(std::size_t spared) : ConnectionLimit(open_files_allowed(), spared) {}

ConnectionLimit::ConnectionLimit(std::size_t open_files, std::size_t spared)
    : open_files_(open_files),
      most_(std::clamp(open_files - std::min(open_files, spared), kLeastConnections, kMaxConnections)) {}

std::optional<std::string> ConnectionLimit::tell_full() {
    if (std::exchange(is_told_, true)) return std::nullopt;
    const std::string start = fmt::format("the job's port holds {} connections and takes no more", most_);
    if (most_ == kMaxConnections) return start;
    return fmt::format(
        "{}: the limit of {} open files leaves no room beside the workers; raise it (ulimit -n)", start,
        open_files_);
}

}  // namespace ddprun::inline job
