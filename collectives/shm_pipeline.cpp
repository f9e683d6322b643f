#include "collectives/shm_pipeline.hpp"

#include <algorithm>

#include "collectives/shm_reduce.hpp"

namespace ddprun {
namespace {

// Slices begin at multiples of it, so that no two ranks write one line.
constexpr std::size_t kSliceUnit = kShmLine;

std::size_t divided_up(std::size_t value, std::size_t by) { return (value + by - 1) / by; }
std::size_t line_up(std::size_t bytes) { return divided_up(bytes, kSliceUnit) * kSliceUnit; }

}  // namespace

ShmPipeline::ShmPipeline(ShmChannel& channel, DataType type, ReduceOp op)
    : channel_(channel), type_(type), op_(op) {}

ShmPipeline::Piece ShmPipeline::Plan::round(std::uint64_t i) const {
    const std::size_t begin = std::min(total, i * per_round);
    return {begin, std::min(per_round, total - begin)};
}

ShmPipeline::Plan ShmPipeline::plan(std::size_t total, std::size_t most_per_round) {
    // Rounds of equal size: a short last one would cost as many waits as a full one.
    const std::size_t rounds = divided_up(total, most_per_round);
    return {total, std::min(line_up(divided_up(total, rounds)), most_per_round), rounds};
}

ShmPipeline::Piece ShmPipeline::slice(std::size_t size, int rank) const {
    const std::size_t share = line_up(divided_up(size, static_cast<std::size_t>(channel_.world_size())));
    const std::size_t begin = std::min(size, static_cast<std::size_t>(rank) * share);
    return {begin, std::min(share, size - begin)};
}

template <class Stage, class Consume>
void ShmPipeline::run(std::uint64_t rounds, Stage stage, Consume consume) {
    stage(0);
    channel_.announce();
    channel_.await_all();
    for (std::uint64_t i = 0; i < rounds; ++i) {
        consume(i, [&] {
            if (i + 1 < rounds) stage(i + 1);
        });
        channel_.set_released(channel_.first_round() + i);
    }
    channel_.rounds_used(rounds);
}

void ShmPipeline::reduce_slice(std::uint64_t round, std::size_t place, std::size_t size, const std::byte* own,
                               std::byte* out) {
    const int rank = channel_.rank();
    std::byte* result = channel_.stage(rank, round) + place;
    for (std::size_t done = 0; done < size; done += kReduceBlock) {
        const std::size_t bytes = std::min(kReduceBlock, size - done);
        const auto part_of = [&](int peer) {
            return peer == rank ? own + done : channel_.stage(peer, round) + place + done;
        };
        reduce_in_order(type_, op_, channel_.world_size(), result + done, bytes, part_of);
        copy_bytes(out + done, result + done, bytes);
    }
}

void ShmPipeline::all_reduce(const std::byte* in, std::byte* out, std::size_t count) {
    const Plan rounds = plan(count * size_of(type_), channel_.stage_size());
    const int n = channel_.world_size();
    const int rank = channel_.rank();
    const auto stage = [&](std::uint64_t i) {
        const std::uint64_t round = channel_.first_round() + i;
        const Piece piece = rounds.round(i);
        channel_.await_stage(round);
        for (int j = 1; j < n; ++j) {
            const Piece theirs = slice(piece.size, other(j));
            copy_bytes(channel_.stage(rank, round) + theirs.begin, in + piece.begin + theirs.begin,
                       theirs.size);
        }
        channel_.set_staged(round);
    };
    run(rounds.rounds, stage, [&](std::uint64_t i, auto stage_next) {
        const std::uint64_t round = channel_.first_round() + i;
        const Piece piece = rounds.round(i);
        const Piece mine = slice(piece.size, rank);
        for (int j = 1; j < n; ++j) channel_.await_staged(other(j), round);
        reduce_slice(round, mine.begin, mine.size, in + piece.begin + mine.begin,
                     out + piece.begin + mine.begin);
        channel_.set_reduced(round);
        stage_next();
        for (int j = 1; j < n; ++j) {
            const Piece theirs = slice(piece.size, other(j));
            channel_.await_reduced(other(j), round);
            copy_bytes(out + piece.begin + theirs.begin, channel_.stage(other(j), round) + theirs.begin,
                       theirs.size);
        }
    });
}

void ShmPipeline::reduce_scatter(const std::byte* in, std::byte* out, std::size_t count) {
    const std::size_t part = count * size_of(type_);
    const int n = channel_.world_size();
    const int rank = channel_.rank();
    const std::size_t share = channel_.stage_size() / static_cast<std::size_t>(n) / kSliceUnit * kSliceUnit;
    const Plan rounds = plan(part, share);
    const auto stage = [&](std::uint64_t i) {
        const std::uint64_t round = channel_.first_round() + i;
        const Piece piece = rounds.round(i);
        channel_.await_stage(round);
        for (int j = 1; j < n; ++j) {
            const auto peer = static_cast<std::size_t>(other(j));
            copy_bytes(channel_.stage(rank, round) + peer * share, in + peer * part + piece.begin,
                       piece.size);
        }
        channel_.set_staged(round);
    };
    run(rounds.rounds, stage, [&](std::uint64_t i, auto stage_next) {
        const std::uint64_t round = channel_.first_round() + i;
        const Piece piece = rounds.round(i);
        stage_next();
        for (int j = 1; j < n; ++j) channel_.await_staged(other(j), round);
        const auto own = static_cast<std::size_t>(rank);
        reduce_slice(round, own * share, piece.size, in + own * part + piece.begin, out + piece.begin);
    });
}

void ShmPipeline::all_gather(const std::byte* in, std::byte* out, std::size_t count) {
    const std::size_t part = count * size_of(type_);
    const Plan rounds = plan(part, channel_.stage_size());
    const int rank = channel_.rank();
    const auto stage = [&](std::uint64_t i) {
        const std::uint64_t round = channel_.first_round() + i;
        const Piece piece = rounds.round(i);
        channel_.await_stage(round);
        copy_bytes(channel_.stage(rank, round), in + piece.begin, piece.size);
        channel_.set_staged(round);
    };
    run(rounds.rounds, stage, [&](std::uint64_t i, auto stage_next) {
        const std::uint64_t round = channel_.first_round() + i;
        const Piece piece = rounds.round(i);
        stage_next();
        copy_bytes(out + static_cast<std::size_t>(rank) * part + piece.begin, in + piece.begin, piece.size);
        for (int j = 1; j < channel_.world_size(); ++j) {
            const auto peer = static_cast<std::size_t>(other(j));
            channel_.await_staged(other(j), round);
            copy_bytes(out + peer * part + piece.begin, channel_.stage(other(j), round), piece.size);
        }
    });
}

void ShmPipeline::broadcast(std::byte* data, std::size_t count, int root) {
    const Plan rounds = plan(count * size_of(type_), channel_.stage_size());
    const std::uint64_t first = channel_.first_round();
    const bool is_root = channel_.rank() == root;
    if (!is_root) {
        channel_.announce();
        channel_.await(root);
    }
    for (std::uint64_t i = 0; i < rounds.rounds; ++i) {
        const Piece piece = rounds.round(i);
        if (is_root) {
            // From here on it waits for the others, who must therefore be in the same call.
            if (i == kShmStages) channel_.await_all();
            channel_.await_stage(first + i);
            copy_bytes(channel_.stage(root, first + i), data + piece.begin, piece.size);
            channel_.set_staged(first + i);
            if (i == 0) channel_.announce();
        } else {
            channel_.await_staged(root, first + i);
            copy_bytes(data + piece.begin, channel_.stage(root, first + i), piece.size);
        }
        channel_.set_released(first + i);
    }
    channel_.rounds_used(rounds.rounds);
}

}  // namespace ddprun
