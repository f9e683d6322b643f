#include "rendezvous/membership/quorum.hpp"

namespace ddprun {
inline namespace job {

Succession::Succession(Following own, TimePoint lost_at) : own_(std::move(own)) {
    const std::chrono::milliseconds heartbeat(own_.last.heartbeat_ms);
    deadline_ = lost_at + 3 * (heartbeat + heartbeat / 3) + kSearchTime;
}

bool Succession::is_candidate(const Member& member) const {
    const bool is_gone = std::find(own_.dead.begin(), own_.dead.end(), member.group_rank) != own_.dead.end();
    return !is_gone && member.group_rank != own_.last.host_rank && member.port != 0;
}

Succession::Step Succession::next(TimePoint now) {
    const std::vector<Member>& members = own_.last.members;
    if (now >= deadline_ ||
        std::none_of(members.begin(), members.end(), [this](const Member& one) { return is_candidate(one); }))
        return {};
    while (place_ < members.size() && !is_candidate(members[place_])) ++place_;
    if (place_ == members.size()) {
        place_ = 0;
        return {Kind::pause, {}};
    }
    const Member& member = members[place_++];
    return {member.group_rank == own_.group_rank ? Kind::host : Kind::call, member};
}

void Succession::note_gone(int group_rank) {
    if (own_.dead.size() == kMaxMembersListed) return;
    if (std::find(own_.dead.begin(), own_.dead.end(), group_rank) == own_.dead.end())
        own_.dead.push_back(group_rank);
}

bool Succession::promise(int epoch) {
    if (epoch <= own_.followed) return false;
    own_.followed = epoch;
    return true;
}

}  // namespace job
}  // namespace ddprun
