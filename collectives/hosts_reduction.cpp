#include "collectives/hosts_reduction.hpp"

#include <algorithm>
#include <cstring>

#include "collectives/shm_reduce.hpp"

namespace ddprun {
namespace {

std::size_t divided_up(std::size_t value, std::size_t by) { return (value + by - 1) / by; }

}  // namespace

PartialKind partial_kind(const Call& call, int world_size) {
    const bool divides = call.reduce == ReduceOp::avg;
    return {call.type, carries_f32(call.reduce, call.type) ? DataType::f32 : call.type,
            divides ? ReduceOp::sum : call.reduce, divides ? world_size : 0};
}

void finish_partial(const PartialKind& kind, std::byte* out, std::byte* partial, std::size_t count) {
    if (kind.averaged != 0) finish_average(kind.carried, partial, count, kind.averaged);
    if (kind.carried != kind.type)
        return narrow(kind.type, out, reinterpret_cast<const float*>(partial), count);
    copy_bytes(out, partial, count * size_of(kind.type));
}

HostsReduction::HostsReduction(ShmChannel& channel, TcpGroup& across, PeerMesh& mesh,
                               std::vector<std::byte>& partials, const PeerMesh::Operation& operation)
    : channel_(channel),
      across_(across),
      mesh_(mesh),
      partials_(partials),
      operation_(operation),
      kind_(partial_kind(operation.call, mesh.world_size())),
      element_(size_of(kind_.type)) {}

void HostsReduction::run(const Task& task) {
    in_ = input_of(task);
    out_ = output_of(task);
    count_ = task.call.count;
    const std::size_t whole = count_ * size_of(kind_.carried);
    chunks_ = std::max<std::size_t>(
        divided_up(whole, kHostsSlice * static_cast<std::size_t>(channel_.world_size())), 1);
    slice_room_ = slice(0, 0).size * size_of(kind_.carried);
    make_room(partials_, 2 * slice_room_, mesh_, operation_);
    reduce_within(0);
    if (chunks_ == 1) {
        const std::size_t size = slice(0, channel_.rank()).size;
        across_.all_reduce(partial(0), partial(0), size, kind_.carried, kind_.op, operation_);
        hand_round(0);
    } else {
        const auto start = [&](std::uint64_t chunk) {
            const std::size_t size = slice(chunk, channel_.rank()).size;
            across_.start_all_reduce(partial(chunk), partial(chunk), size, kind_.carried, kind_.op,
                                     operation_);
        };
        start(0);
        for (std::uint64_t chunk = 0; chunk < chunks_; ++chunk) {
            if (chunk + 1 < chunks_) reduce_within(chunk + 1);
            across_.finish(operation_);
            // Handed round only then: the other slot of partials is still to be copied, this one to be sent.
            if (chunk + 1 < chunks_) start(chunk + 1);
            hand_round(chunk);
        }
    }
    channel_.rounds_used(rounds_);
}

Range HostsReduction::slice(std::uint64_t chunk, int place) const {
    const Range whole = chunk_range(count_, static_cast<int>(chunks_), static_cast<int>(chunk));
    const Range part = chunk_range(whole.size, channel_.world_size(), place);
    return {whole.begin + part.begin, part.size};
}

std::byte* HostsReduction::partial(std::uint64_t chunk) { return partials_.data() + chunk % 2 * slice_room_; }

Range HostsReduction::piece(const Range& slice, std::size_t done, std::size_t step) const {
    const std::size_t bytes = slice.size * element_;
    const std::size_t begin = std::min(bytes, done);
    return {begin, std::min(step, bytes - begin)};
}

void HostsReduction::announce_once() {
    if (announced_) return;
    announced_ = true;
    channel_.announce();
    channel_.await_all();
}

template <class Stage, class Use>
void HostsReduction::run_rounds(std::size_t rounds, Stage stage, Use use) {
    const std::uint64_t first = channel_.first_round() + rounds_;
    const auto stage_one = [&](std::size_t i) {
        channel_.await_stage(first + i);
        stage(i, channel_.stage(channel_.rank(), first + i));
        channel_.set_staged(first + i);
        across_.advance();
    };
    stage_one(0);
    announce_once();
    for (std::size_t i = 0; i < rounds; ++i) {
        if (i + 1 < rounds) stage_one(i + 1);
        use(i, first + i);
        channel_.set_released(first + i);
    }
    rounds_ += rounds;
}

void HostsReduction::reduce_within(std::uint64_t chunk) {
    const int n = channel_.world_size();
    const int self = channel_.rank();
    // A stage holds as much of each slice as there is room for all.
    const std::size_t step = channel_.stage_size() / static_cast<std::size_t>(n) / kShmLine * kShmLine;
    const auto stage = [&](std::size_t i, std::byte* to) {
        for (int j = 1; j < n; ++j) {
            const Range theirs = slice(chunk, other(j));
            const Range part = piece(theirs, i * step, step);
            copy_bytes(to + static_cast<std::size_t>(other(j)) * step,
                       in_ + theirs.begin * element_ + part.begin, part.size);
        }
    };
    const Range own = slice(chunk, self);
    const std::size_t place = static_cast<std::size_t>(self) * step;
    const auto use = [&](std::size_t i, std::uint64_t round) {
        for (int j = 1; j < n; ++j) channel_.await_staged(other(j), round);
        const Range part = piece(own, i * step, step);
        const std::size_t block = kReduceBlock;
        for (std::size_t done = 0; done < part.size; done += block) {
            const std::size_t first = (part.begin + done) / element_;
            const auto part_of = [&](int peer) {
                return peer == self ? in_ + own.begin * element_ + part.begin + done
                                    : channel_.stage(peer, round) + place + done;
            };
            reduce_partial(kind_, n, partial(chunk) + first * size_of(kind_.carried),
                           std::min(block, part.size - done) / element_, part_of);
        }
    };
    run_rounds(divided_up(slice(chunk, 0).size * element_, step), stage, use);
}

void HostsReduction::hand_round(std::uint64_t chunk) {
    const int n = channel_.world_size();
    const Range own = slice(chunk, channel_.rank());
    std::byte* mine = out_ + own.begin * element_;
    finish_partial(kind_, mine, partial(chunk), own.size);
    const std::size_t step = channel_.stage_size();
    const auto stage = [&](std::size_t i, std::byte* to) {
        const Range part = piece(own, i * step, step);
        copy_bytes(to, mine + part.begin, part.size);
    };
    const auto use = [&](std::size_t i, std::uint64_t round) {
        for (int j = 1; j < n; ++j) {
            const Range theirs = slice(chunk, other(j));
            const Range part = piece(theirs, i * step, step);
            channel_.await_staged(other(j), round);
            copy_bytes(out_ + theirs.begin * element_ + part.begin, channel_.stage(other(j), round),
                       part.size);
        }
    };
    run_rounds(divided_up(slice(chunk, 0).size * element_, step), stage, use);
}

}  // namespace ddprun
