#include "collectives/tcp/transfer.hpp"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun::inline detail {
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

}  // namespace

void run_flows(PeerMesh& mesh, std::span<Flow* const> flows, const PeerMesh::Operation& operation) {
    SpinLimit spin_limit(mesh.spins());
    // Most operations have a flow for each lane, and allocate nothing.
    std::array<Awaited, kMaxLanes> few;
    std::vector<Awaited> many(flows.size() > few.size() ? flows.size() : 0);
    const std::span<Awaited> awaited = many.empty() ? std::span<Awaited>(few) : std::span<Awaited>(many);
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
            mesh.wait(awaited.first(open), operation);
        }
    }
}

void require_same_call(PeerMesh& mesh, const MessageReader& reader, const Call& call,
                       const PeerMesh::Operation& operation) {
    const auto theirs = reader.header();
    const int peer = reader.link().peer();
    if (!theirs) {
        mesh.fail({CollectiveErrorCode::system,
                   {peer},
                   fmt::format("rank {} sent bytes that are no message", peer)},
                  operation);
    }
    if (*theirs == on_wire(call)) return;
    mesh.fail_mismatch(call, peer, *theirs, operation);
}

namespace {

// A lane's part of a message. Everything is borrowed.
template <class Byte>
struct MessagePart {
    const Call* call = nullptr;
    Byte* data = nullptr;
    std::size_t size = 0;
};

enum class Sends { at_once, what_was_received };

// One lane's part of the messages from one rank, and to one rank, which may be another. Each direction takes its
// messages one after the other, in their order, and waits for nothing of the other direction; but a relay sends
// only what it has received.
class Exchange final : public Flow {
  public:
    // A direction without parts is not used, and its rank means nothing.
    struct Incoming {
        int from = -1;
        std::span<const MessagePart<std::byte>> parts;
    };
    struct Outgoing {
        int to = -1;
        std::span<const MessagePart<const std::byte>> parts;
    };

    // Dials where this rank has not yet. what_was_received: one message of the same size each way.
    Exchange(PeerMesh& mesh, int lane, const Incoming& in, const Outgoing& out, Sends sends,
             const PeerMesh::Operation& operation);

    bool move() override;
    bool done() const override { return received() && sent(); }
    Awaited awaited() const override;

  private:
    bool received() const { return in_.parts.empty(); }
    bool sent() const { return out_.parts.empty(); }
    std::size_t sendable() const;
    bool can_send() const { return !sent() && (!writer_->header_done() || out_done_ < sendable()); }
    bool pull();
    bool push();

    PeerMesh& mesh_;
    const PeerMesh::Operation& operation_;
    int lane_;
    // The parts that are not through; the first is on its way.
    Incoming in_;
    Outgoing out_;
    Sends sends_;
    TcpLink* in_link_ = nullptr;  // null while the sender has not dialled
    TcpLink* out_link_ = nullptr;
    std::optional<MessageReader> reader_;
    std::optional<MessageWriter> writer_;
    std::size_t in_done_ = 0;
    std::size_t out_done_ = 0;
};

Exchange::Exchange(PeerMesh& mesh, int lane, const Incoming& in, const Outgoing& out, Sends sends,
                   const PeerMesh::Operation& operation)
    : mesh_(mesh), operation_(operation), lane_(lane), in_(in), out_(out), sends_(sends) {
    if (sent()) return;
    out_link_ = &mesh.outgoing(out.to, lane, operation);
    writer_.emplace(*out_link_, *out_.parts.front().call);
}

bool Exchange::move() {
    // Sent before the sender's connection is there, which may depend on what this rank sends.
    const bool moved = push();
    return pull() || moved;
}

Awaited Exchange::awaited() const {
    return {received() ? nullptr : in_link_, can_send() ? out_link_ : nullptr, received() ? -1 : in_.from};
}

std::size_t Exchange::sendable() const {
    const bool at_once = sends_ == Sends::at_once || received();
    return at_once ? out_.parts.front().size : in_done_;
}

bool Exchange::pull() {
    if (received()) return false;
    if (in_link_ == nullptr) {
        in_link_ = mesh_.incoming(in_.from, lane_, operation_);
        if (in_link_ == nullptr) return false;
    }
    if (!reader_) reader_.emplace(*in_link_);
    const MessagePart<std::byte>& part = in_.parts.front();
    const bool had_header = reader_->header_done();
    in_done_ += reader_->read(part.data + in_done_, std::min(part.size - in_done_, kMaxMove));
    const bool moved = reader_->moved();
    if (!had_header && reader_->header_done()) require_same_call(mesh_, *reader_, *part.call, operation_);
    if (reader_->header_done() && in_done_ == part.size) {
        in_.parts = in_.parts.subspan(1);
        in_done_ = 0;
        reader_.reset();
    }
    return moved;
}

bool Exchange::push() {
    if (!can_send()) return false;
    const MessagePart<const std::byte>& part = out_.parts.front();
    out_done_ += writer_->write(part.data + out_done_, std::min(sendable() - out_done_, kMaxMove));
    const bool moved = writer_->moved();
    if (writer_->header_done() && out_done_ == part.size) {
        out_.parts = out_.parts.subspan(1);
        out_done_ = 0;
        if (!sent()) writer_.emplace(*out_link_, *out_.parts.front().call);
    }
    return moved;
}

template <class Byte>
MessagePart<Byte> part_of_lane(const Call& call, Byte* data, std::size_t size, int lanes, int lane) {
    const Range part = chunk_range(size, lanes, lane);
    return {&call, data + part.begin, part.size};
}

// Each lane takes its range of the bytes; the two directions may have different lengths.
void exchange(PeerMesh& mesh, const Incoming& in, const Outgoing& out, Sends sends,
              const PeerMesh::Operation& operation) {
    const int in_lanes = in.from < 0 ? 0 : lanes_for(in.size, mesh.lanes());
    const int out_lanes = out.to < 0 ? 0 : lanes_for(out.size, mesh.lanes());
    std::array<MessagePart<std::byte>, kMaxLanes> in_parts;
    std::array<MessagePart<const std::byte>, kMaxLanes> out_parts;
    std::array<std::optional<Exchange>, kMaxLanes> exchanges;
    std::array<Flow*, kMaxLanes> flows{};
    const int lanes = std::max(in_lanes, out_lanes);
    for (int lane = 0; lane < lanes; ++lane) {
        const auto index = static_cast<std::size_t>(lane);
        Exchange::Incoming lane_in;
        Exchange::Outgoing lane_out;
        if (lane < in_lanes) {
            in_parts[index] = part_of_lane(operation.call, in.data, in.size, in_lanes, lane);
            lane_in = {in.from, std::span(in_parts).subspan(index, 1)};
        }
        if (lane < out_lanes) {
            out_parts[index] = part_of_lane(operation.call, out.data, out.size, out_lanes, lane);
            lane_out = {out.to, std::span(out_parts).subspan(index, 1)};
        }
        flows[index] = &exchanges[index].emplace(mesh, lane, lane_in, lane_out, sends, operation);
    }
    run_flows(mesh, std::span(flows).first(static_cast<std::size_t>(lanes)), operation);
}

}  // namespace

void transfer(PeerMesh& mesh, const Incoming& in, const Outgoing& out, const PeerMesh::Operation& operation) {
    exchange(mesh, in, out, Sends::at_once, operation);
}

void relay(PeerMesh& mesh, int from, int to, std::byte* data, std::size_t size,
           const PeerMesh::Operation& operation) {
    exchange(mesh, {from, data, size}, {to, data, size}, from < 0 ? Sends::at_once : Sends::what_was_received,
             operation);
}

void transfer_group(PeerMesh& mesh, std::span<const Task> members, const PeerMesh::Operation& operation) {
    struct Parts {
        std::vector<MessagePart<std::byte>> in;
        std::vector<MessagePart<const std::byte>> out;
    };
    // Sorts by how far away the peer is to the right, so that the ranks do not all begin with the same; and lane.
    std::map<std::pair<int, int>, Parts> by_lane;
    for (const Task& member : members) {
        const Call& call = member.call;
        const int distance = (call.root - mesh.rank() + mesh.world_size()) % mesh.world_size();
        const int lanes = lanes_for(bytes_of(member), mesh.lanes());
        for (int lane = 0; lane < lanes; ++lane) {
            Parts& parts = by_lane[{distance, lane}];
            if (call.operation == ddprun::Operation::send) {
                parts.out.push_back(part_of_lane(call, input_of(member), bytes_of(member), lanes, lane));
            } else {
                parts.in.push_back(part_of_lane(call, output_of(member), bytes_of(member), lanes, lane));
            }
        }
    }
    std::deque<Exchange> exchanges;
    std::vector<Flow*> flows;
    for (const auto& [place, parts] : by_lane) {
        const int peer = (mesh.rank() + place.first) % mesh.world_size();
        const Exchange::Incoming in{peer, parts.in};
        const Exchange::Outgoing out{peer, parts.out};
        flows.push_back(&exchanges.emplace_back(mesh, place.second, in, out, Sends::at_once, operation));
    }
    run_flows(mesh, flows, operation);
}

}  // namespace ddprun::inline detail
