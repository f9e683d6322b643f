// How a coordinator goes on where a register outside the job decides who leads it: by rounds that are recorded there.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rendezvous/control/control_text.hpp"
#include "rendezvous/coordinator/coordinator.hpp"

namespace ddprun::inline job {

RoundRecord Coordinator::record_of(int round) const {
    RoundRecord record{.job_id = options_.job_id, .epoch = epoch_, .round = round, .host = {}, .pid = 0};
    if (!options_.own_agent) return record;
    record.host = options_.own_agent->host;
    record.pid = options_.own_agent->pid;
    return record;
}

// Out of the next round. Who has said that it leaves ends by itself; who is left out may not have heard of it.
bool Coordinator::leaves_somebody() const {
    return lost_silently_ || std::any_of(nodes_.begin(), nodes_.end(), [](const auto& entry) {
               const JobNode& node = entry.second;
               return node.connected && !node.leaving && !node.left_out.empty();
           });
}

// A member that was left out could lead the job from the last round.
bool Coordinator::lacks_record() const {
    return records() && leaves_somebody() && recorded_ != record_of(round_ + 1);
}

void Coordinator::record(TimePoint now) {
    join_deadline_ = now + options_.join_timeout;
    // Should it end the job, then because of whom it is needed for, whatever became of workers meanwhile.
    for (const auto& [rank, node] : nodes_) {
        if (node.connected || node.is_dead) continue;
        cause_ =
            Failure{.kind = Failure::Kind::node_lost,
                    .node_rank = rank,
                    .host = node.hello.host,
                    .exit_code = kExitUnavailable,
                    .message = node.silent ? silence_text(options_.heartbeat) : "its connection was lost"};
    }
    decision_.message = "etcd does not say whether another node leads the job (--rdzv-backend)";
    wish_ = RecordWish{record_of(round_ + 1), std::nullopt};
}

// All of the last round's members are in this one or dead, so nobody can have gone on with less. Until one of them could
// have done so since, the record may be begun anew where it was lost.
void Coordinator::wish_record(TimePoint now) {
    if (records() && recorded_ != record_of(round_))
        wish_ = RecordWish{record_of(round_), now + options_.heartbeat};
    lost_silently_ = false;
}

// When this one takes the job over.
void Coordinator::note_missing() {
    for (int rank = 0; rank < members_->size; ++rank) {
        const auto node = nodes_.find(rank);
        const bool is_there = node != nodes_.end() && node->second.connected;
        lost_silently_ = lost_silently_ || (!is_there && !dead_.contains(rank));
    }
    if (!records()) return;
    wish_ = RecordWish{record_of(round_), std::nullopt};
    wish_->record.epoch = members_->epoch;
}

Coordinator::Outbox Coordinator::learn(const RecordNews& news, TimePoint now) {
    const bool is_wished = wish_ && wish_->record == news.record;
    switch (news.kind) {
        case RecordNews::Kind::recorded:
            recorded_ = news.record;
            if (is_wished) handle(CoordinatorEvent::recorded, {now});
            break;
        case RecordNews::Kind::trouble:
            if (state_ == CoordinatorState::recording)
                decision_.message = fmt::format(
                    "{} s have passed (--join-timeout), and etcd does not say whether another "
                    "node leads the job: {}",
                    std::chrono::duration_cast<std::chrono::seconds>(options_.join_timeout).count(),
                    news.cause);
            break;
        case RecordNews::Kind::refused:
            if (!is_wished || state_ != CoordinatorState::recording) break;
            decision_.message = news.cause;
            handle(CoordinatorEvent::deposed, {now});
            break;
    }
    return take_out();
}

}  // namespace ddprun::inline job
