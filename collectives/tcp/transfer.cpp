#include "collectives/tcp/transfer.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/tcp/exchange.hpp"
#include "collectives/tcp/flow.hpp"

namespace ddprun {
namespace {

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
    // By how far away the peer is to the right, so that the ranks do not all begin with the same; and lane.
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

}  // namespace ddprun
