#include "rendezvous/server/caller_gate.hpp"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace ddprun {
inline namespace job {

namespace ip = boost::asio::ip;

std::optional<RefusedCaller> RefusedCallers::add(RefusedCaller caller, Clock::time_point now) {
    const bool is_known = sources_.contains({caller.address, caller.user, caller.reason});
    if (!is_known && sources_.size() >= kMostSources)
        caller = {.reason = fmt::format("callers of more than {} sources", kMostSources)};
    Source& source = sources_[{caller.address, caller.user, caller.reason}];
    ++source.calls;
    if (source.told && now < *source.told + kPause) return std::nullopt;
    caller.is_first = !std::exchange(source.told, now);
    caller.calls = std::exchange(source.calls, 0);
    return caller;
}

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

CallerGate::TurnedAway CallerGate::turn_away(const Caller& caller, const std::string& why,
                                             RefusedCallers::Clock::time_point now) {
    if (caller.owner.kind == ConnectionOwner::Kind::closed && why.empty()) return {};
    const bool is_here = caller.owner.kind == ConnectionOwner::Kind::user;
    RefusedCaller refused{.address = comparable(caller.address).to_string(), .reason = why};
    if (is_here) refused.user = caller.owner.uid;
    std::string text;
    if (!why.empty()) {
        text = fmt::format("an agent at {} was turned away: {}", refused.address, why);
    } else if (is_here) {
        refused.reason = fmt::format("only user {} and root may use it", own_);
        text = fmt::format("user {} of this machine was turned away from the job's port: {}",
                           caller.owner.uid, refused.reason);
    } else {
        refused.reason = through_doors_ ? "workers on other machines come through their agents' doors"
                                        : "no node of this job's round calls from there";
        text = fmt::format("a store client at {} was turned away: {}", refused.address, refused.reason);
    }
    TurnedAway told{{}, refused_.add(std::move(refused), now)};
    if (told.event && told.event->is_first && told_ < kMaxTold) {
        ++told_;
        told.sentence = std::move(text);
    }
    return told;
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
    const std::string start =
        fmt::format("the job's port holds {} connections; more take the places of silent ones", most_);
    if (most_ == kMaxConnections) return start;
    return fmt::format(
        "{}: the limit of {} open files leaves no room for more beside the workers; raise it (ulimit -n)",
        start, open_files_);
}

}  // namespace job
}  // namespace ddprun
