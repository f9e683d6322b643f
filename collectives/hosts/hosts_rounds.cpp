#include "collectives/hosts/hosts_rounds.hpp"

#include <algorithm>

#include "collectives/shm/shm_reduce.hpp"

namespace ddprun::inline detail {
namespace {

std::size_t rounds_for(std::span<const Range> slices, std::size_t step) {
    return divided_up(std::ranges::max(slices, {}, &Range::size).size, step);
}

// What round i moves of a slice, `step` bytes a round.
Range part_of(const Range& slice, std::size_t i, std::size_t step) {
    const std::size_t done = std::min(slice.size, i * step);
    return {slice.begin + done, std::min(step, slice.size - done)};
}

const Range& at(std::span<const Range> slices, int place) { return slices[static_cast<std::size_t>(place)]; }

}  // namespace

void HostsRounds::announce() {
    if (announced_) return;
    announced_ = true;
    channel_.announce();
    channel_.await_all();
}

template <class Stage, class Use>
void HostsRounds::run(std::size_t rounds, Stage stage, Use use) {
    const std::uint64_t first = channel_.first_round() + rounds_;
    const auto stage_one = [&](std::size_t i) {
        channel_.await_stage(first + i);
        stage(i, channel_.stage(channel_.rank(), first + i));
        channel_.set_staged(first + i);
        across_.advance();
    };
    if (rounds > 0) stage_one(0);
    announce();
    for (std::size_t i = 0; i < rounds; ++i) {
        if (i + 1 < rounds) stage_one(i + 1);
        use(i, first + i);
        channel_.set_released(first + i);
    }
    rounds_ += rounds;
}

void HostsRounds::reduce(const PartialKind& kind, const std::byte* in, std::span<const Range> slices,
                         std::byte* partial) {
    const int n = channel_.world_size();
    const int self = channel_.rank();
    const std::size_t element = size_of(kind.type);
    // A stage holds as much of each slice as there is room for all.
    const std::size_t step = channel_.stage_size() / static_cast<std::size_t>(n) / kShmLine * kShmLine;
    const auto stage = [&](std::size_t i, std::byte* to) {
        for (int j = 1; j < n; ++j) {
            const Range part = part_of(at(slices, other(j)), i, step);
            copy_bytes(to + static_cast<std::size_t>(other(j)) * step, in + part.begin, part.size);
        }
    };
    const auto use = [&](std::size_t i, std::uint64_t round) {
        for (int j = 1; j < n; ++j) channel_.await_staged(other(j), round);
        const Range part = part_of(at(slices, self), i, step);
        std::byte* out = partial + i * step / element * size_of(kind.carried);
        for (std::size_t done = 0; done < part.size; done += kReduceBlock) {
            const auto source = [&](int place) {
                if (place == self) return in + part.begin + done;
                return static_cast<const std::byte*>(channel_.stage(place, round)) +
                       static_cast<std::size_t>(self) * step + done;
            };
            reduce_partial(kind, n, out + done / element * size_of(kind.carried),
                           std::min(kReduceBlock, part.size - done) / element, source);
        }
    };
    run(rounds_for(slices, step), stage, use);
}

void HostsRounds::hand_round(std::byte* out, std::span<const Range> slices) {
    const std::size_t step = channel_.stage_size();
    const auto stage = [&](std::size_t i, std::byte* to) {
        const Range part = part_of(at(slices, channel_.rank()), i, step);
        copy_bytes(to, out + part.begin, part.size);
    };
    const auto use = [&](std::size_t i, std::uint64_t round) {
        for (int j = 1; j < channel_.world_size(); ++j) {
            const Range part = part_of(at(slices, other(j)), i, step);
            channel_.await_staged(other(j), round);
            copy_bytes(out + part.begin, channel_.stage(other(j), round), part.size);
        }
    };
    run(rounds_for(slices, step), stage, use);
}

void HostsRounds::broadcast(std::byte* data, std::size_t size, int root) {
    const Range whole{0, size};
    const std::size_t step = channel_.stage_size();
    const bool is_root = channel_.rank() == root;
    const auto stage = [&](std::size_t i, std::byte* to) {
        const Range part = part_of(whole, i, step);
        if (is_root) copy_bytes(to, data + part.begin, part.size);
    };
    const auto use = [&](std::size_t i, std::uint64_t round) {
        if (is_root) return;
        const Range part = part_of(whole, i, step);
        channel_.await_staged(root, round);
        copy_bytes(data + part.begin, channel_.stage(root, round), part.size);
    };
    run(rounds_for({&whole, 1}, step), stage, use);
}

}  // namespace ddprun::inline detail
