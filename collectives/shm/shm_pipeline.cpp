#include "collectives/shm/shm_pipeline.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "collectives/shm/copy_shared.hpp"
#include "collectives/shm/shm_channel.hpp"
#include "collectives/shm/shm_slices.hpp"

namespace ddprun {
inline namespace detail {
namespace {

// The probe reduces so many elements, so often.
constexpr std::size_t kProbeElements = std::size_t{16} << 10;
constexpr int kProbeTries = 6;
// Plain stores leave what is written in a cache, from where other uses of it gain too.
constexpr double kWorthIt = 0.8;

class ShmPipeline {
  public:
    ShmPipeline(ShmChannel& channel, DataType type, ReduceOp op, const ShmNote& note, bool announced)
        : channel_(channel), type_(type), op_(op), note_(note), announced_(announced) {}

    void run(const Task& task) {
        const std::byte* in = input_of(task);
        std::byte* out = output_of(task);
        const std::size_t count = task.call.count;
        const OperationTraits& traits = traits_of(task.call.operation);
        const int root = traits.has_root ? task.call.root : kEverybody;
        input_ = bytes_of(task) * (traits.whole_in ? static_cast<std::size_t>(channel_.world_size()) : 1);
        if (task.call.operation == Operation::broadcast) return broadcast(out, count, root);
        if (traits.reduces && traits.whole_in) return reduce_scatter(task);
        if (traits.reduces) return reduce_in_stages(in, out, count, root);
        traits.whole_in ? scatter_in_stages(task, root) : gather_in_stages(task, root);
    }

  private:
    static constexpr int kEverybody = -1;

    struct Plan {
        std::size_t total;      // bytes
        std::size_t per_round;  // a multiple of the line
        std::uint64_t rounds;

        ShmPiece round(std::uint64_t i) const {
            const std::size_t begin = std::min(total, i * per_round);
            return {begin, std::min(per_round, total - begin)};
        }
    };

    static Plan plan(std::size_t total, std::size_t most_per_round) {
        // Rounds of equal size: a short last one would cost as many waits as a full one.
        const std::size_t rounds = divided_up(total, most_per_round);
        return {total, std::min(line_up(divided_up(total, rounds)), most_per_round), rounds};
    }

    // The part of a stage for each rank, where a round has as much of every part.
    std::size_t share() const {
        return channel_.stage_size() / static_cast<std::size_t>(channel_.world_size()) / kSliceUnit *
               kSliceUnit;
    }
    int other(int i) const { return (channel_.rank() + i) % channel_.world_size(); }
    std::byte* own_stage(std::uint64_t round) const { return channel_.stage(channel_.rank(), round); }
    // Calls stage(i), two rounds ahead, then use(i), for every round i of the plan. `stage` fills this rank's
    // stage; `use` reads the others'.
    template <class Stage, class Use>
    void run_rounds(const Plan& plan, Stage stage, Use use) {
        begin(plan, stage);
        for (std::uint64_t i = 0; i < plan.rounds; ++i) {
            if (i + 2 < plan.rounds) stage_round(i + 2, stage);
            use(i);
            channel_.set_released(channel_.first_round() + i);
        }
        finish(plan.rounds);
    }

    bool stages() const { return note_.in == 0; }

    // Nobody returns while others read its input.
    void finish(std::uint64_t rounds) {
        if (!stages()) {
            channel_.await_all();
            channel_.await_stage(channel_.first_round() + rounds - 1 + kShmStages);
        }
        channel_.rounds_used(rounds);
    }

    template <class Stage>
    void stage_round(std::uint64_t i, Stage stage) {
        if (stages()) channel_.await_stage(channel_.first_round() + i);
        stage(i);
        if (stages() && (i > 0 || announced_)) channel_.set_staged(channel_.first_round() + i);
    }

    // The first two rounds, and the announcement.
    template <class Stage>
    void begin(const Plan& plan, Stage stage) {
        stage_round(0, stage);
        if (!announced_) announce();
        if (plan.rounds > 1) stage_round(1, stage);
        if (!announced_) channel_.await_all();
    }

    void announce() {
        channel_.write_note(note_);
        channel_.announce();
    }

    // What a round moves of a part that is not longer than `size`.
    static ShmPiece within(const ShmPiece& piece, std::size_t size) {
        const std::size_t begin = std::min(piece.begin, size);
        return {begin, std::min(piece.size, size - begin)};
    }
    // Copies the other ranks' pieces of the input into this rank's stage, each at its share.
    void stage_parts(std::uint64_t round, const Task& task, const ShmPiece& whole) {
        for (int j = 1; stages() && j < channel_.world_size(); ++j) {
            const int peer = other(j);
            const ShmPiece piece = within(whole, input_bytes(task, peer));
            copy_shared(channel_.store_type(), own_stage(round) + static_cast<std::size_t>(peer) * share(),
                        input_part(task, peer) + piece.begin, piece.size);
        }
    }

    ShmNote note_of(int peer) const { return channel_.note(peer, type_, input_, 0); }

    // The first round is staged before the call is announced, and needs no word of its own; but not by a rank
    // whose note says that it could have done without.
    void await_staged(int peer, std::uint64_t i) {
        if (i > 0 || note_of(peer).in != 0) channel_.await_staged(peer, channel_.first_round() + i);
    }

    // Returns where this rank finds what the peer gives in a round: so many bytes within its input, if that
    // lies in its pool; else in its stage, and when it is there.
    const std::byte* source(int peer, std::uint64_t i, std::size_t within_input, std::size_t within_stage) {
        if (const ShmNote note = note_of(peer); note.in != 0) return channel_.memory(note.in) + within_input;
        await_staged(peer, i);
        return channel_.stage(peer, channel_.first_round() + i) + within_stage;
    }

    // Counts are elements, not zero, in all that follows. The results are for `root`, or for all.
    //
    // A reduction goes through the stages like this:
    // 1. Each rank copies the other ranks' slices of a round's input into its own stage, two rounds ahead of
    //    their use.
    // 2. When all others have staged the round, it reduces its own slice from all their stages, in the order
    //    0 … n-1.
    // 3. It writes the result back to where it has read the slice, in the stage of each rank that wants it,
    //    and says so.
    // 4. So each rank finds the whole result of the round in its own stage, and copies it out, one round
    //    behind 2.
    // 5. A stage is used again three rounds later, when all others have said that they need nothing of it any
    //    more.
    void reduce_in_stages(const std::byte* in, std::byte* out, std::size_t count, int root) {
        const Plan rounds = plan(count * size_of(type_), channel_.stage_size());
        const std::uint64_t first = channel_.first_round();
        const int n = channel_.world_size();
        const int rank = channel_.rank();
        const bool has_out = root == kEverybody || root == rank;
        const auto stage = [&](std::uint64_t i) {
            const ShmPiece piece = rounds.round(i);
            for (int j = 1; j < n; ++j) {
                const ShmPiece theirs = shm_slice(piece.size, other(j), n);
                copy_shared(channel_.store_type(), own_stage(first + i) + theirs.begin,
                            in + piece.begin + theirs.begin, theirs.size);
            }
        };
        const auto reduce = [&](std::uint64_t i) {
            const ShmPiece piece = rounds.round(i);
            const ShmPiece mine = shm_slice(piece.size, rank, n);
            const std::size_t place = piece.begin + mine.begin;
            for (int j = 1; j < n; ++j) await_staged(other(j), i);
            const auto slice_of = [&](int peer) { return channel_.stage(peer, first + i) + mine.begin; };
            reduce_slice({mine.size, in + place, has_out ? out + place : nullptr}, slice_of,
                         [&](const std::byte* result, std::size_t at, std::size_t bytes) {
                             for (int j = 1; j < n; ++j) {
                                 if (root != kEverybody && root != other(j)) continue;
                                 copy_shared(channel_.store_type(), slice_of(other(j)) + at, result, bytes);
                             }
                         });
            channel_.set_reduced_and_released(first + i);
        };
        const auto collect = [&](std::uint64_t i) {
            const ShmPiece piece = rounds.round(i);
            for (int j = 1; has_out && j < n; ++j) {
                const ShmPiece theirs = shm_slice(piece.size, other(j), n);
                channel_.await_reduced(other(j), first + i);
                copy_bytes(out + piece.begin + theirs.begin, own_stage(first + i) + theirs.begin,
                           theirs.size);
            }
        };
        begin(rounds, stage);
        reduce(0);
        for (std::uint64_t i = 0; i < rounds.rounds; ++i) {
            if (i + 2 < rounds.rounds) stage_round(i + 2, stage);
            if (i + 1 < rounds.rounds) reduce(i + 1);
            collect(i);
        }
        channel_.rounds_used(rounds.rounds);
    }

    // All parts are for `root`, or for all.
    void gather_in_stages(const Task& task, int root) {
        const std::byte* in = input_of(task);
        const std::uint64_t first = channel_.first_round();
        const int rank = channel_.rank();
        const bool has_out = root == kEverybody || root == rank;
        const Plan rounds = plan(bytes_of(task), channel_.stage_size());
        const std::size_t own = input_bytes(task, root == kEverybody ? rank : root);
        const auto stage = [&](std::uint64_t i) {
            const ShmPiece piece = within(rounds.round(i), own);
            if (root != rank && stages())
                copy_shared(channel_.store_type(), own_stage(first + i), in + piece.begin, piece.size);
            if (has_out) copy_bytes(output_part(task, rank) + piece.begin, in + piece.begin, piece.size);
        };
        run_rounds(rounds, stage, [&](std::uint64_t i) {
            for (int j = 1; has_out && j < channel_.world_size(); ++j) {
                const int from = other(j);
                const ShmPiece piece = within(rounds.round(i), output_bytes(task, from));
                copy_bytes(output_part(task, from) + piece.begin, source(from, i, piece.begin, 0),
                           piece.size);
            }
        });
    }

    // The parts are those of `root`, or of all.
    void scatter_in_stages(const Task& task, int root) {
        const std::uint64_t first = channel_.first_round();
        const int rank = channel_.rank();
        const auto own = static_cast<std::size_t>(rank);
        const bool has_in = root == kEverybody || root == rank;
        // Returns where the part from a rank goes: to the only one there is, or to that rank's.
        const auto place_of = [&](int from) {
            return root == kEverybody ? output_part(task, from) : output_of(task);
        };
        const Plan rounds = plan(bytes_of(task), share());
        const auto stage = [&](std::uint64_t i) {
            if (!has_in) return;
            stage_parts(first + i, task, rounds.round(i));
            const ShmPiece piece = within(rounds.round(i), input_bytes(task, rank));
            copy_bytes(place_of(rank) + piece.begin, input_part(task, rank) + piece.begin, piece.size);
        };
        run_rounds(rounds, stage, [&](std::uint64_t i) {
            for (int j = 1; j < channel_.world_size(); ++j) {
                const int from = other(j);
                if (root != kEverybody && root != from) continue;
                const ShmPiece piece = within(rounds.round(i), output_bytes(task, from));
                copy_bytes(place_of(from) + piece.begin,
                           source(from, i, own * bytes_of(task) + piece.begin, own * share()), piece.size);
            }
        });
    }

    void reduce_scatter(const Task& task) {
        const std::uint64_t first = channel_.first_round();
        const int rank = channel_.rank();
        const auto own = static_cast<std::size_t>(rank);
        const Plan rounds = plan(bytes_of(task), share());
        const auto stage = [&](std::uint64_t i) { stage_parts(first + i, task, rounds.round(i)); };
        run_rounds(rounds, stage, [&](std::uint64_t i) {
            const ShmPiece piece = within(rounds.round(i), input_bytes(task, rank));
            reduce_slice(
                {piece.size, input_part(task, rank) + piece.begin, output_of(task) + piece.begin},
                [&](int peer) { return source(peer, i, own * bytes_of(task) + piece.begin, own * share()); },
                [](const std::byte*, std::size_t, std::size_t) {});
        });
    }

    void broadcast(std::byte* data, std::size_t count, int root) {
        const Plan rounds = plan(count * size_of(type_), channel_.stage_size());
        const std::uint64_t first = channel_.first_round();
        const bool is_root = channel_.rank() == root;
        if (!is_root) {
            announce();
            channel_.await(root);
        }
        for (std::uint64_t i = 0; i < rounds.rounds; ++i) {
            const ShmPiece piece = rounds.round(i);
            if (is_root) {
                // It waits from here on for the others, who must therefore be in the same call.
                if (i == kShmStages) channel_.await_all();
                stage_round(i, [&](std::uint64_t) {
                    if (stages())
                        copy_shared(channel_.store_type(), own_stage(first + i), data + piece.begin,
                                    piece.size);
                });
                if (i == 0) announce();
            } else {
                copy_bytes(data + piece.begin, source(root, i, piece.begin, 0), piece.size);
            }
            channel_.set_released(first + i);
        }
        finish(rounds.rounds);
    }

    // A Slice is what a rank reduces: so many bytes, its own values, and where it wants the result: nowhere
    // if null.
    struct Slice {
        std::size_t size;
        const std::byte* own;
        std::byte* out;
    };
    // slice_of(peer) is where another rank's values begin; share(result, done, bytes) is called for every
    // block, so many bytes behind the beginning, while it is in the cache.
    template <class SliceOf, class Share>
    void reduce_slice(const Slice& slice, SliceOf slice_of, Share share) {
        alignas(kShmLine) std::array<std::byte, kReduceBlock> block;
        const int n = channel_.world_size();
        const bool direct = slice.out != nullptr && may_reduce_in_place(type_, op_, n);
        for (std::size_t done = 0; done < slice.size; done += kReduceBlock) {
            const std::size_t bytes = std::min(kReduceBlock, slice.size - done);
            std::byte* result = direct ? slice.out + done : block.data();
            reduce_in_order(type_, op_, n, result, bytes, [&](int peer) {
                return (peer == channel_.rank() ? slice.own : slice_of(peer)) + done;
            });
            if (slice.out != nullptr) copy_bytes(slice.out + done, result, bytes);
            share(result, done, bytes);
        }
    }

    ShmChannel& channel_;
    DataType type_;
    ReduceOp op_;
    ShmNote note_;
    bool announced_;
    std::size_t input_ = 0;  // bytes that each rank's has where it lies in its pool
};

}  // namespace

void run_in_stages(ShmChannel& channel, const Task& task, const ShmNote& note, bool announced) {
    ShmPipeline(channel, task.call.type, task.call.reduce, note, announced).run(task);
}

StoreType probe_store_type(ShmChannel& channel, bool all_measured, const PeerMesh::Operation& joining) {
    if (channel.is_crowded()) return StoreType::plain;
    if (all_measured) return static_cast<StoreType>(found_store_type() - 1);
    using Time = std::chrono::duration<double>;
    std::vector<float> data(kProbeElements);
    const Task probe{.call = {Operation::all_reduce, DataType::f32, ReduceOp::max, -1, kProbeElements},
                     .in = data.data(),
                     .out = data.data()};
    std::array<Time, 2> best{Time::max(), Time::max()};
    for (int i = 0; i < kProbeTries; ++i) {
        for (const StoreType type : {StoreType::plain, StoreType::non_temporal}) {
            const ShmTurn turn(channel, joining);
            channel.set_store_type(type);
            const auto begin = std::chrono::steady_clock::now();
            run_in_stages(channel, probe);
            const Time time = std::chrono::steady_clock::now() - begin;
            Time& least = best[static_cast<std::size_t>(type)];
            // The first of all only brings the pages in.
            if (i > 0) least = std::min(least, time);
        }
    }
    const StoreType found = best[1] < kWorthIt * best[0] ? StoreType::non_temporal : StoreType::plain;
    found_store_type() = static_cast<int>(found) + 1;
    return found;
}

}  // namespace detail
}  // namespace ddprun
