#include "collectives/tcp/flow.hpp"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <array>

#include "collectives/arithmetic/schedule.hpp"

namespace ddprun {
inline namespace detail {
namespace {

// Being woken takes 20 us and more on a virtual machine.
constexpr std::chrono::microseconds kFlowSpin{50};

// Whether to look again at once, because what is awaited may come sooner than a sleeper would wake.
class SpinLimit {
  public:
    explicit SpinLimit(bool spins) : spins_(spins) {}

    void moved() noexcept { idle_ = false; }
    bool looks_again() {
        if (!spins_) return false;
        const auto now = Deadline::clock::now();
        if (!idle_) since_ = now;
        idle_ = true;
        // The peer may have been put on this rank's CPU, where it runs only if given the chance.
        if (now - since_ < kFlowSpin) return ::sched_yield() == 0;
        idle_ = false;
        return false;
    }

  private:
    bool spins_;
    bool idle_ = false;
    Deadline since_{};
};

// Ends the communicator with `mismatch`, naming both calls, unless the sender is in the same call.
void require_same_call(PeerMesh& mesh, const MessageReader& reader, const PeerMesh::Operation& operation) {
    const auto theirs = reader.header();
    const int peer = reader.link().peer();
    if (!theirs) {
        mesh.fail({CollectiveErrorCode::system,
                   {peer},
                   fmt::format("rank {} sent bytes that are no message", peer)},
                  operation);
    }
    if (*theirs != operation.call) mesh.fail_mismatch(operation.call, peer, *theirs, operation);
}

enum class Sends { at_once, what_was_received };

// One lane's part of a message from one rank, and of one to a rank, which may be another. A direction waits
// for nothing of the other one; but a relay sends only what it has received.
class Exchange final : public Flow {
  public:
    // Dials where this rank has not yet. what_was_received: as much each way.
    Exchange(PeerMesh& mesh, int lane, const Incoming& in, const Outgoing& out, Sends sends,
             const PeerMesh::Operation& operation)
        : mesh_(mesh), operation_(operation), lane_(lane), in_(in), out_(out), sends_(sends) {
        if (out.to >= 0) writer_.emplace(mesh.outgoing(out.to, lane, operation), operation.call);
    }

    bool move() override {
        // Sent before the sender's connection is there, which may depend on what this rank sends.
        const bool moved = push();
        return pull() || moved;
    }
    bool done() const override { return received() && sent(); }
    Awaited awaited() const override {
        return {!received() && reader_ ? &reader_->link() : nullptr, can_send() ? &writer_->link() : nullptr,
                received() ? -1 : in_.from};
    }

  private:
    bool received() const {
        return in_.from < 0 || (reader_ && reader_->header_done() && in_done_ == in_.size);
    }
    bool sent() const { return out_.to < 0 || (writer_->header_done() && out_done_ == out_.size); }
    std::size_t sendable() const { return sends_ == Sends::at_once ? out_.size : in_done_; }
    bool can_send() const { return !sent() && (!writer_->header_done() || out_done_ < sendable()); }
    bool pull() {
        if (received() || !open_reader(reader_, mesh_, in_.from, lane_, operation_)) return false;
        in_done_ += read_message(mesh_, *reader_, in_.data + in_done_,
                                 std::min(in_.size - in_done_, kMaxMove), operation_);
        return reader_->moved();
    }
    bool push() {
        if (!can_send()) return false;
        out_done_ += writer_->write(out_.data + out_done_, std::min(sendable() - out_done_, kMaxMove));
        return writer_->moved();
    }

    PeerMesh& mesh_;
    const PeerMesh::Operation& operation_;
    int lane_;
    Incoming in_;
    Outgoing out_;
    Sends sends_;
    std::optional<MessageReader> reader_;
    std::optional<MessageWriter> writer_;
    std::size_t in_done_ = 0;
    std::size_t out_done_ = 0;
};

// The lane's range of the bytes; a lane that is none of the message's has no rank.
template <class Message>
Message part_of_lane(Message whole, int Message::*end, int lanes, int lane) {
    const int used = whole.*end < 0 ? 0 : lanes_for(whole.size, lanes);
    if (lane >= used) {
        whole.*end = -1;
        return whole;
    }
    const Range part = chunk_range(whole.size, used, lane);
    whole.data += part.begin;
    whole.size = part.size;
    return whole;
}

// The two directions may have different lengths.
void exchange(PeerMesh& mesh, const Incoming& in, const Outgoing& out, Sends sends,
              const PeerMesh::Operation& operation) {
    std::array<std::optional<Exchange>, kMaxLanes> exchanges;
    std::array<Flow*, kMaxLanes> flows{};
    std::size_t used = 0;
    for (int lane = 0; lane < mesh.lanes(); ++lane) {
        const Incoming lane_in = part_of_lane(in, &Incoming::from, mesh.lanes(), lane);
        const Outgoing lane_out = part_of_lane(out, &Outgoing::to, mesh.lanes(), lane);
        if (lane_in.from < 0 && lane_out.to < 0) break;
        flows[used] = &exchanges[used].emplace(mesh, lane, lane_in, lane_out, sends, operation);
        ++used;
    }
    run_flows(mesh, std::span(flows).first(used), operation);
}

}  // namespace

bool open_reader(std::optional<MessageReader>& reader, PeerMesh& mesh, int from, int lane,
                 const PeerMesh::Operation& operation) {
    if (reader) return true;
    TcpLink* link = mesh.incoming(from, lane, operation);
    if (link != nullptr) reader.emplace(*link);
    return link != nullptr;
}

std::size_t read_message(PeerMesh& mesh, MessageReader& reader, std::byte* payload, std::size_t size,
                         const PeerMesh::Operation& operation) {
    const bool had_header = reader.header_done();
    const std::size_t count = reader.read(payload, size);
    if (!had_header && reader.header_done()) require_same_call(mesh, reader, operation);
    return count;
}

void run_flows(PeerMesh& mesh, std::span<Flow* const> flows, const PeerMesh::Operation& operation) {
    SpinLimit spin_limit(mesh.spins());
    std::array<Awaited, kMaxLanes> awaited;
    while (true) {
        bool moved = false;
        std::size_t open = 0;
        for (Flow* flow : flows) {
            if (flow->done()) continue;
            moved = flow->move() || moved;
            if (!flow->done()) awaited[open++] = flow->awaited();
        }
        if (open == 0) return;
        if (moved) {
            spin_limit.moved();
        } else if (!spin_limit.looks_again()) {
            mesh.wait(std::span(awaited).first(open), operation);
        }
    }
}

void transfer(PeerMesh& mesh, const Incoming& in, const Outgoing& out, const PeerMesh::Operation& operation) {
    exchange(mesh, in, out, Sends::at_once, operation);
}

void relay(PeerMesh& mesh, int from, int to, std::byte* data, std::size_t size,
           const PeerMesh::Operation& operation) {
    exchange(mesh, {from, data, size}, {to, data, size}, from < 0 ? Sends::at_once : Sends::what_was_received,
             operation);
}

}  // namespace detail
}  // namespace ddprun
