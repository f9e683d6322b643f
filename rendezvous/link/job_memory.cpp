#include "rendezvous/link/job_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "rendezvous/codec/json_codec.hpp"

namespace ddprun {
inline namespace job {

Endpoint meeting_place_of(const Member& member) {
    return {member.address, static_cast<std::uint16_t>(member.port)};
}

std::vector<Endpoint> meeting_places_of(const MemberList& list) {
    std::vector<Endpoint> places;
    for (const Member& member : list.members) {
        if (member.port != 0) places.push_back(meeting_place_of(member));
    }
    return places;
}

void JobMemory::learn(const ControlMessage& message) {
    if (const auto* list = std::get_if<MemberList>(&message)) {
        members_ = *list;
        // A round begins, or has begun, and whether with this agent, RoundReady says. Without it, it has no
        // voice any more.
        if (following_ && list->version() > following_->last.version()) following_.reset();
    } else if (const auto* ready = std::get_if<RoundReady>(&message)) {
        following_.reset();
        leader_.reset();
        if (!members_ || members_->round != ready->round) return;
        following_ = Following{.last = *members_,
                               .group_rank = ready->group_rank,
                               .base_rank = ready->base_rank,
                               .place = ready->place,
                               .claim = {},
                               .followed = members_->epoch,
                               .has_workers = false,
                               .is_decided = false,
                               .restart_count = ready->restart_count,
                               .resizes = ready->resizes,
                               .cause = {},
                               .dead = {}};
        if (node_rank_ != kUnnumbered) following_->claim = node_rank_;
    }
    if (!following_) return;
    if (const auto* stop = std::get_if<Stop>(&message)) {
        if (stop->cause.kind == Failure::Kind::resized) return;
        Failure& cause = following_->cause.emplace(stop->cause);
        // It is said once more, beside much else.
        cause.traceback.clear();
        cause.last_lines.clear();
        cause.others.clear();
        cause.left.clear();
        for (std::string* text :
             {&cause.message, &cause.error_message, &cause.hint, &cause.accusation, &cause.testimony})
            *text = cut_text(*text, kMaxCauseCarried);
    } else if (const auto* restarting = std::get_if<Restarting>(&message)) {
        following_->is_decided = true;
        following_->restart_count = restarting->restart;
        if (restarting->resize > 0) following_->resizes = restarting->resize;
    } else if (const auto* gone = std::get_if<MemberGone>(&message)) {
        if (following_->last.version() == std::pair(gone->epoch, gone->round)) note_gone(gone->group_rank);
    } else if (const auto* stepped_down = std::get_if<SteppedDown>(&message)) {
        if (following_->last.version() != std::pair(stepped_down->epoch, stepped_down->round)) return;
        for (const int rank : stepped_down->gone) note_gone(rank);
    }
}

void JobMemory::learn_leader(const Following& own, int group_rank) {
    if (!following_) return;
    following_->dead = own.dead;
    following_->followed = own.followed;
    leader_ = group_rank;
}

void JobMemory::note_gone(int group_rank) {
    std::vector<int>& dead = following_->dead;
    const bool is_known = std::find(dead.begin(), dead.end(), group_rank) != dead.end();
    if (!is_known && dead.size() < kMaxMembersListed) dead.push_back(group_rank);
}

std::optional<Following> JobMemory::following() const { return following_; }

}  // namespace job
}  // namespace ddprun
