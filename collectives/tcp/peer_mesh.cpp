#include "collectives/tcp/peer_mesh.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "collectives/wire/redial.hpp"
#include "rendezvous/system/check.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/resource_limits.hpp"

namespace ddprun::inline detail {
namespace {

// Polls once; interruptions by signals look like nothing having happened.
void poll_once(std::span<pollfd> polled, Deadline deadline) {
    const int ready = ::poll(polled.data(), polled.size(), poll_timeout(deadline));
    check(ready >= 0 || errno == EINTR, "a rank can poll its own descriptors");
}

bool is_writable(const TcpLink& link) {
    pollfd polled{link.descriptor(), POLLOUT, 0};
    return ::poll(&polled, 1, 0) == 1;
}

int blamed(const Awaited& awaited) {
    if (awaited.in != nullptr) return awaited.in->peer();
    return awaited.peer >= 0 ? awaited.peer : awaited.out->peer();
}

int ranks_of_this_machine(const Membership& membership) {
    int ranks = 0;
    for (int rank = 0; rank < membership.world_size(); ++rank)
        ranks += membership.is_within_machine(rank) ? 1 : 0;
    return ranks;
}

// Throws LinkLost for bytes that do not fit into the buffer, which the first ones always do.
void write_first(TcpLink& link, std::span<std::byte> bytes) {
    iovec part{bytes.data(), bytes.size()};
    if (link.write_some({&part, 1}) != bytes.size()) throw LinkLost{link.peer(), EMSGSIZE};
}

void read_all(PeerMesh& mesh, TcpLink& link, std::span<std::byte> bytes,
              const PeerMesh::Operation& operation) {
    while (!bytes.empty()) {
        iovec rest{bytes.data(), bytes.size()};
        const std::size_t count = link.read_some({&rest, 1});
        const Awaited more{&link, nullptr, link.peer()};
        if (count == 0) mesh.wait({&more, 1}, operation);
        bytes = bytes.subspan(count);
    }
}

}  // namespace

PeerMesh::PeerMesh(Membership membership, std::optional<TcpListener> listener, const Operation& joining,
                   const Origin& origin)
    : membership_(std::move(membership)),
      lifeline_(membership_, std::move(listener), origin),
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
    Dialled right;
    try {
        call(right, membership_.right(), Channel::lifeline, 0, joining);
    } catch (const CollectiveError&) {
        // The neighbour may have let this rank in already, and must hear why it gives up before the
        // connection closes: else it takes this rank for the dead one.
        if (right.link.descriptor() >= 0) lifeline_.add_neighbour(std::move(right.link));
        throw;
    }
    lifeline_.add_neighbour(std::move(right.link));
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
    // Entered even where it fails, since others may ask which call it was.
    if (!lifeline_.enter(operation.call)) throw_if_ended(operation);
}

TcpLink& PeerMesh::outgoing(int peer, int lane, const Operation& operation) {
    auto found = outgoing_.find({peer, lane});
    if (found == outgoing_.end()) {
        Dialled dialled;
        call(dialled, peer, Channel::data, lane, operation);
        found = outgoing_.emplace(LaneOfPeer{peer, lane}, std::move(dialled.link)).first;
    }
    return found->second;
}

TcpLink* PeerMesh::incoming(int peer, int lane, const Operation& operation) {
    const auto found = incoming_.find({peer, lane});
    if (found != incoming_.end()) return &found->second;
    // Asked before taking: a peer that has left dialled before it said goodbye, and may have proven later that it was that
    // peer.
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
    if (!schedule_) schedule_.emplace(operation.deadline - operation.timeout.length, notice_after_);
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

void PeerMesh::call(Dialled& dialled, int peer, Channel channel, int lane, const Operation& operation) {
    Redial redial;
    const bool within = membership_.is_within_machine(peer);
    while (true) {
        try {
            dialled = Dialled();
            dialled = dial(peer, channel, lane, operation,
                           within ? Clock::now() + redial.patience() : Deadline::max());
            return come(dialled, operation);
        } catch (const LinkLost& lost) {
            const auto pause = redial.pause_after(lost.error_number, within);
            if (!pause) throw;
            await_reason(peer, std::min(Clock::now() + *pause, end_of(operation)), operation);
        }
        if (has_passed(end_of(operation))) fail_late({peer}, operation);
    }
}

PeerMesh::Dialled PeerMesh::dial(int peer, Channel channel, int lane, const Operation& operation,
                                 Deadline patience) {
    TcpLink link;
    LinkHello hello{channel, membership_.round, membership_.communicator,       rank(),
                    peer,    membership_.nonce, static_cast<std::uint8_t>(lane)};
    try {
        if (membership_.mesh_key) hello.challenge = random_nonce();
        link = TcpLink(peer, begin_connect(membership_.member(peer).endpoint));
    } catch (const boost::system::system_error& error) {
        fail({CollectiveErrorCode::system,
              {peer},
              fmt::format("rank {} cannot be reached: {}", peer, error.what())},
             operation);
    }
    const Awaited connected{nullptr, &link, peer};
    while (!is_writable(link)) {
        if (has_passed(patience)) throw LinkLost{peer, ETIMEDOUT};
        wait({&connected, 1}, operation, patience);
    }
    if (const int error = connect_error(link.descriptor()); error != 0) throw LinkLost{peer, error};
    Dialled dialled{std::move(link), encode(hello)};
    write_first(dialled.link, dialled.hello);
    return dialled;
}

void PeerMesh::come(Dialled& dialled, const Operation& operation) {
    TcpLink& link = dialled.link;
    std::array<std::byte, kHelloAnswerSize> bytes{};
    read_all(*this, link, bytes, operation);
    const auto answer = decode_hello_answer(bytes);
    const bool has_key = membership_.mesh_key.has_value();
    if (answer == HelloAnswer::prove && has_key) return exchange_proofs(dialled, operation);
    if (answer == HelloAnswer::welcome && !has_key) return;
    // The rank's port is closed, and somebody else got it; or it is its family's, and this communicator has ended there.
    const bool has_gone = answer == HelloAnswer::other_rank || answer == HelloAnswer::other_communicator ||
                          answer == HelloAnswer::other_job;
    if (has_gone) throw LinkLost{link.peer(), ECONNREFUSED};
    const std::string at = to_string(membership_.member(link.peer()).endpoint);
    const bool refused = answer && answer != HelloAnswer::welcome && answer != HelloAnswer::prove;
    const std::string what = refused ? fmt::format("rank {} at {} refused the connection of rank {}: {}",
                                                   link.peer(), at, rank(), reason_of(*answer))
                                     : fmt::format("what listens at {} is not rank {}", at, link.peer());
    fail({CollectiveErrorCode::system, {link.peer()}, what}, operation);
}

void PeerMesh::exchange_proofs(Dialled& dialled, const Operation& operation) {
    const int peer = dialled.link.peer();
    const SecretKey& key = *membership_.mesh_key;
    std::array<std::byte, kOfferSize> bytes{};
    read_all(*this, dialled.link, bytes, operation);
    const MeshOffer offer = decode_offer(bytes);
    if (!is_proof(offer.proof, key, MeshSide::dialled, dialled.hello, offer.challenge)) {
        fail({CollectiveErrorCode::system,
              {peer},
              fmt::format("what listens at {} as rank {} has another DDPRUN_MESH_KEY than rank {}",
                          to_string(membership_.member(peer).endpoint), peer, rank())},
             operation);
    }
    MeshProof proof = make_proof(key, MeshSide::dialler, dialled.hello, offer.challenge);
    write_first(dialled.link, proof);
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

}  // namespace ddprun::inline detail
