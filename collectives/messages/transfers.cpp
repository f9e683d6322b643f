// Sends, receives and groups of them as operations: what becomes of them that do not end well is the mesh's
// to say.
#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <new>

#include "collectives/messages/transfers.hpp"

namespace ddprun {
inline namespace detail {
namespace {

MessageRequest request_of(const Task& task, int rank) {
    const bool sends = task.call.operation == Operation::send;
    const int peer = task.call.root;
    // Its deadline is the operation's.
    return {sends,
            task.in,
            task.out,
            bytes_of(task),
            peer,
            static_cast<std::uint64_t>(sends ? rank : peer),
            kLongestTimeout,
            static_cast<std::uint8_t>(static_cast<unsigned>(task.call.type) + 1)};
}

}  // namespace

void Transfers::run(const Task& task) {
    PeerMesh::Operation operation = tcp_.begin(task.call, task.timeout);
    const CallEnd end(tcp_.mesh().call_slot());
    const int rank = tcp_.mesh().rank();
    if (!task.members) {
        MessageOperation work(request_of(task, rank));
        MessageOperation* const place = &work;
        return carry_out({&task, 1}, {&place, 1}, operation);
    }
    std::deque<MessageOperation> works;
    std::vector<MessageOperation*> places;
    try {
        for (const Task& member : *task.members)
            places.push_back(&works.emplace_back(request_of(member, rank)));
    } catch (const std::bad_alloc&) {
        tcp_.mesh().fail({CollectiveErrorCode::system, {rank}, fmt::format("rank {} is out of memory", rank)},
                         operation);
    }
    carry_out(*task.members, places, operation);
}

void Transfers::carry_out(std::span<const Task> members, Messenger::Operations works,
                          PeerMesh::Operation& operation) {
    messenger_.begin_all(works);
    try {
        for (std::size_t i = 0; i < works.size(); ++i) {
            MessageOperation& work = *works[i];
            if (!messenger_.ends_soon(work)) await(work, works, operation);
            if (work.error) fail(members[i].call, work, operation);
        }
    } catch (const CollectiveError&) {
        // They have ended, or do now, with the communicator.
        for (MessageOperation* work : works) messenger_.await_until(*work, Deadline::max());
        throw;
    }
}

std::vector<int> Transfers::open_peers(Messenger::Operations works) {
    std::vector<int> peers;
    for (MessageOperation* work : works) {
        if (!work->has_ended()) peers.push_back(work->peer());
    }
    return peers;
}

void Transfers::await(MessageOperation& work, Messenger::Operations works, PeerMesh::Operation& operation) {
    PeerMesh& mesh = tcp_.mesh();
    const auto whole = operation.timeout.length;
    // A clock takes longer than most messages.
    if (operation.deadline == Deadline::max()) {
        operation.deadline = Deadline::clock::now() + whole;
        next_notice_ = Deadline();
    }
    while (true) {
        if (has_passed(next_notice_)) next_notice_ = mesh.run_wait_schedule(open_peers(works), operation);
        const Deadline planned = std::min(operation.deadline, next_notice_);
        if (messenger_.await_until(work, planned)) return;
        const auto now = Deadline::clock::now();
        operation.deadline = end_after_sleep(operation.deadline, planned, now, whole);
        if (now < operation.deadline) continue;
        const std::vector<int> late = open_peers(works);
        // Where nothing has moved, the peers have seen nothing of it.
        messenger_.give_up(works) ? mesh.throw_late(late, operation) : mesh.fail_late(late, operation);
    }
}

void Transfers::fail(const Call& call, const MessageOperation& work, const PeerMesh::Operation& operation) {
    PeerMesh& mesh = tcp_.mesh();
    const CollectiveError& error = *work.error;
    if (work.sent_element > 0) {
        const auto type = static_cast<DataType>(work.sent_element - 1);
        const Call theirs{Operation::send, type, ReduceOp::sum, -1, work.sent_bytes / size_of(type)};
        mesh.fail_mismatch(call, work.source, theirs, operation);
    }
    mesh.throw_if_ended(operation);
    if (error.code() == CollectiveErrorCode::peer_left) mesh.throw_if_left(work.peer(), operation);
    mesh.fail({error.code(), error.culprits(), error.what()}, operation);
}

}  // namespace detail
}  // namespace ddprun
