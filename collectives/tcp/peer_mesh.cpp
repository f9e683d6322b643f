#include "collectives/tcp/peer_mesh.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "rendezvous/base/check.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/system/resource_limits.hpp"

namespace ddprun {
inline namespace detail {
namespace {

// Polls once; interruptions by signals look like nothing having happened.
void poll_once(std::span<pollfd> polled, Deadline deadline) {
    const int ready = ::poll(polled.data(), polled.size(), poll_timeout(deadline));
    check(ready >= 0 || errno == EINTR, "a rank can poll its own descriptors");
}

int blamed(const Awaited& awaited) {
    if (awaited.in != nullptr) return awaited.in->peer();
    return awaited.peer >= 0 ? awaited.peer : awaited.out->peer();
}

std::uint64_t number_of(const Nonce& nonce) {
    std::uint64_t number = 0;
    std::memcpy(&number, nonce.data(), sizeof(number));
    return number;
}

int ranks_of_this_machine(const Membership& membership) {
    int ranks = 0;
    for (int rank = 0; rank < membership.world_size(); ++rank)
        ranks += membership.is_within_machine(rank) ? 1 : 0;
    return ranks;
}

}  // namespace

PeerMesh::PeerMesh(Membership membership, std::optional<TcpListener> listener, const Operation& joining,
                   const Origin& origin)
    : membership_(std::move(membership)),
      lifeline_(membership_, std::move(listener), origin),
      call_slot_(number_of(membership_.nonce), lifeline_.job_ranks()),
      lanes_(membership_.lanes()),
      spins_(ranks_of_this_machine(membership_) <= usable_cpus(online_cpus(), find_cpu_quota())) {
    if (origin.meet) origin.meet(membership_);
    try {
        try {
            connect_ring(joining);
        } catch (const LinkLost& lost) {
            fail_lost(lost, joining);
        }
    } catch (const CollectiveError&) {
        await_left_neighbour();
        throw;
    }
}

void PeerMesh::connect_ring(const Operation& joining) {
    Dial right(membership_, membership_.right(), Channel::lifeline);
    try {
        call(right, membership_.right(), joining);
    } catch (const CollectiveError&) {
        // The neighbour may have let this rank in already, and must hear why it gives up before the
        // connection closes: else it takes this rank for the dead one.
        if (right.has_spoken()) lifeline_.add_neighbour(std::move(right.link()));
        throw;
    }
    lifeline_.add_neighbour(std::move(right.link()));
    const Awaited left{nullptr, nullptr, membership_.left()};
    while (!lifeline_.has_left_neighbour()) wait({&left, 1}, joining);
}

// It can hear of the end by this rank only; one that finds it gone takes it for the dead. What comes of a
// communicator that is split off, it learns from the parent.
void PeerMesh::await_left_neighbour() {
    const auto verdict = lifeline_.verdict();
    const bool is_culprit = verdict && std::find(verdict->culprits.begin(), verdict->culprits.end(),
                                                 membership_.left()) != verdict->culprits.end();
    // One that is refused, or has another key, lives, and is to find out the same.
    if (is_culprit && verdict->code != CollectiveErrorCode::system) return;
    const Deadline deadline = Clock::now() + kRingTimeout;
    while (!lifeline_.has_left_neighbour() && !lifeline_.verdict_of_parent() && wait_for_news(deadline)) {
    }
}

void PeerMesh::enter(const Operation& operation) {
    schedule_.reset();
    call_slot_.begin(operation.call);
    // Entered even where it fails, since others may ask which call it was.
    if (!lifeline_.enter(operation.call)) throw_if_ended(operation);
}

TcpLink& PeerMesh::outgoing(int peer, int lane, const Operation& operation) {
    auto found = outgoing_.find({peer, lane});
    if (found == outgoing_.end()) {
        Dial dial(membership_, peer, Channel::data, lane);
        call(dial, peer, operation);
        found = outgoing_.emplace(LaneOfPeer{peer, lane}, std::move(dial.link())).first;
    }
    return found->second;
}

TcpLink* PeerMesh::incoming(int peer, int lane, const Operation& operation) {
    const auto found = incoming_.find({peer, lane});
    if (found != incoming_.end()) return &found->second;
    // Asked before taking: a peer that has left dialled before it said goodbye, and may have proven later
    // that it was that peer.
    const bool left = lifeline_.left_after(peer).has_value() && !lifeline_.may_bring_data(peer, lane);
    if (auto link = lifeline_.take_data(peer, lane)) {
        return &incoming_.emplace(LaneOfPeer{peer, lane}, std::move(*link)).first->second;
    }
    if (left) fail_left(peer, operation);
    return nullptr;
}

void PeerMesh::wait(std::span<const Awaited> awaited, const Operation& operation, Deadline until) {
    polled_.assign(1, {lifeline_.news_descriptor(), POLLIN, 0});
    awaited_ranks_.clear();
    for (const Awaited& one : awaited) {
        if (one.in != nullptr) polled_.push_back({one.in->descriptor(), POLLIN, 0});
        if (one.out != nullptr) polled_.push_back({one.out->descriptor(), POLLOUT, 0});
        awaited_ranks_.push_back(blamed(one));
    }
    while (true) {
        const Deadline planned =
            std::min({until, end_of(operation), run_wait_schedule(awaited_ranks_, operation)});
        poll_once(polled_, planned);
        if (polled_[0].revents != 0) {
            lifeline_.take_news();
            throw_if_ended(operation);
            return;
        }
        const auto is_ready = [](const pollfd& one) { return one.revents != 0; };
        if (std::any_of(polled_.begin(), polled_.end(), is_ready)) return;
        granted_ = end_after_sleep(end_of(operation), planned, Clock::now(), operation.timeout.length);
        granted_for_ = operation.deadline;
        if (has_passed(end_of(operation))) fail_late(awaited_ranks_, operation);
        if (has_passed(until)) return;
    }
}

void PeerMesh::throw_if_ended(const Operation& operation) {
    if (const auto verdict = lifeline_.verdict()) throw error_of(*verdict, operation.call);
    if (is_point_to_point(operation.call.operation)) return;
    if (const int peer = lifeline_.state(&LifelineState::left_before, operation.call.sequence); peer >= 0)
        fail_left(peer, operation);
}

Deadline PeerMesh::run_wait_schedule(const std::vector<int>& awaited, const Operation& operation) {
    const Call& call = operation.call;
    // While ranks join, there are no calls to compare; and who is late then, the store knows.
    if (call.operation == ddprun::Operation::join) return Deadline::max();
    const Deadline begin = operation.deadline - operation.timeout.length;
    call_slot_.wait(begin, awaited);
    if (!schedule_) schedule_.emplace(begin, notice_after_);
    const auto now = Clock::now();
    if (now < schedule_->next()) return schedule_->next();
    if (schedule_->takes_question(now) && !is_point_to_point(call.operation))
        lifeline_.change(&LifelineState::ask, schedule_->round());
    if (schedule_->takes_inquiry(now)) lifeline_.inquire();
    if (schedule_->takes_notice(now)) {
        const auto notice = notice_of_wait(lifeline_.progress(), call, rank(), awaited,
                                           {notice_after_, "CommunicatorOptions::notice_after"});
        if (notice) std::fprintf(stderr, "%s\n", notice->c_str());
    }
    return schedule_->next();
}

void PeerMesh::call(Dial& dial, int peer, const Operation& operation) {
    try {
        while (!dial.go_on()) {
            const short awaits = dial.awaits();
            if (awaits == 0) {
                await_reason(peer, std::min(dial.until(), end_of(operation)), operation);
                if (has_passed(end_of(operation))) fail_late({peer}, operation);
                continue;
            }
            const Awaited one{awaits == POLLIN ? &dial.link() : nullptr,
                              awaits == POLLOUT ? &dial.link() : nullptr, peer};
            wait({&one, 1}, operation, dial.until());
        }
    } catch (const DialRefused& refused) {
        fail({CollectiveErrorCode::system, {peer}, refused.what}, operation);
    }
}

bool PeerMesh::wait_for_news(Deadline deadline) {
    pollfd polled{lifeline_.news_descriptor(), POLLIN, 0};
    poll_once({&polled, 1}, deadline);
    lifeline_.take_news();
    return !has_passed(deadline);
}

void PeerMesh::fail(const Verdict& verdict, const Operation& operation) {
    throw error_of(lifeline_.declare(verdict), operation.call);
}

void PeerMesh::await_reason(int peer, Deadline deadline, const Operation& operation) {
    do {
        throw_if_ended(operation);
        if (const auto inherited = lifeline_.verdict_of_parent()) fail(*inherited, operation);
        throw_if_left(peer, operation);
    } while (wait_for_news(deadline));
    throw_if_ended(operation);
}

void PeerMesh::fail_lost(const LinkLost& lost, const Operation& operation) {
    await_reason(lost.peer, Clock::now() + kVerdictTimeout, operation);
    const std::string how =
        lost.error_number == 0 ? "closed without a goodbye" : std::strerror(lost.error_number);
    fail({CollectiveErrorCode::peer_died,
          {lost.peer},
          accuse(lost.peer, Charge::died) + ": its connection: " + how},
         operation);
}

void PeerMesh::fail_left(int peer, const Operation& operation) {
    const auto sequence = lifeline_.left_after(peer).value_or(0);
    const Verdict verdict{CollectiveErrorCode::peer_left,
                          {peer},
                          fmt::format("rank {} {}", peer, predicate_of_leaving(sequence))};
    const bool concerns_all = operation.call.sequence > 0 && !is_point_to_point(operation.call.operation);
    if (concerns_all) fail_disagreement(operation.call.sequence, verdict, operation);
    fail(verdict, operation);
}

void PeerMesh::fail_mismatch(const Call& call, int peer, const Call& theirs, const Operation& operation) {
    const Verdict verdict = mismatch_verdict(rank(), call, peer, theirs);
    const bool concerns_all = !is_point_to_point(call.operation) && !is_point_to_point(theirs.operation);
    if (concerns_all && call.sequence == theirs.sequence)
        fail_disagreement(call.sequence, verdict, operation);
    fail(verdict, operation);
}

void PeerMesh::fail_disagreement(std::uint64_t sequence, const Verdict& otherwise,
                                 const Operation& operation) {
    const Deadline deadline = Clock::now() + kJudgementTimeout;
    lifeline_.change(&LifelineState::suspect, sequence);
    while (!lifeline_.verdict() && lifeline_.hears_others() && wait_for_news(deadline)) {
    }
    throw error_of(lifeline_.conclude(sequence, otherwise), operation.call);
}

void PeerMesh::inquire(const Operation& operation) {
    lifeline_.inquire();
    const Deadline deadline = Clock::now() + kAnswerTimeout;
    while (!lifeline_.state(&LifelineState::all_answered) && wait_for_news(deadline))
        throw_if_ended(operation);
    throw_if_ended(operation);
}

void PeerMesh::throw_if_mismatched(const Operation& operation) {
    inquire(operation);
    Verdict verdict = blame_for_deadline(lifeline_.progress(), operation.call, rank(), {}, operation.timeout);
    if (verdict.code == CollectiveErrorCode::mismatch) fail(verdict, operation);
}

Verdict PeerMesh::verdict_on_late(const std::vector<int>& awaited, const Operation& operation) {
    inquire(operation);
    Verdict verdict =
        blame_for_deadline(lifeline_.progress(), operation.call, rank(), awaited, operation.timeout);
    if (verdict.code == CollectiveErrorCode::timed_out) verdict.text.insert(0, kTimedOut);
    return verdict;
}

void PeerMesh::fail_late(const std::vector<int>& awaited, const Operation& operation) {
    fail(verdict_on_late(awaited, operation), operation);
}

void PeerMesh::throw_late(const std::vector<int>& awaited, const Operation& operation) {
    Verdict verdict = verdict_on_late(awaited, operation);
    if (membership_.own_numbers) verdict.text.insert(0, kOwnNumbers);
    throw error_of(verdict, operation.call);
}

std::vector<int> PeerMesh::leave_together(Deadline deadline) {
    lifeline_.leave();
    while (true) {
        const bool in_time = !has_passed(deadline);
        if (const auto verdict = lifeline_.verdict()) throw error_of(*verdict, "finalize");
        std::vector<int> missing;
        for (int peer = 0; peer < world_size(); ++peer) {
            if (peer != rank() && !lifeline_.left_after(peer)) missing.push_back(peer);
        }
        if (missing.empty() || !in_time) return missing;
        wait_for_news(deadline);
    }
}

}  // namespace detail
}  // namespace ddprun
