#include "collectives/hosts/hosts_backend.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "collectives/arithmetic/reduce.hpp"
#include "collectives/shm/shm_channel.hpp"
#include "collectives/shm/shm_lifeline.hpp"
#include "collectives/shm/shm_slices.hpp"
#include "collectives/tcp/tcp_backend.hpp"
#include "collectives/tcp/tcp_group.hpp"

namespace ddprun {
inline namespace detail {
namespace {

constexpr std::size_t kHostsWholeVector = std::size_t{4} << 10;

std::size_t rounds_for(std::span<const Range> slices, std::size_t step) {
    return divided_up(std::ranges::max(slices, {}, &Range::size).size, step);
}

// Returns what round i moves of a slice, `step` bytes a round.
Range part_of(const Range& slice, std::size_t i, std::size_t step) {
    const std::size_t done = std::min(slice.size, i * step);
    return {slice.begin + done, std::min(step, slice.size - done)};
}

const Range& at(std::span<const Range> slices, int place) { return slices[static_cast<std::size_t>(place)]; }

// The rounds of a buffer of `bytes`, as carried, with a slice for each of the ranks of a host.
std::size_t chunks_for(std::size_t bytes, int ranks) {
    return std::max<std::size_t>(divided_up(bytes, kHostsSlice * static_cast<std::size_t>(ranks)), 1);
}

// HostsRounds: the part within a host of one call over several hosts (see HostsBackend), in rounds of staged
// data.
//
// A buffer is divided into slices, one for each rank of the host, given in bytes by place; they need not
// touch. All ranks of the host call the same functions in the same order, with the same slices. Between waits
// the group across hosts moves on with what it has under way.
//
// The channel must have an open, not yet announced call. Throws as ShmChannel, and LinkLost.
class HostsRounds {
  public:
    // Borrows both.
    HostsRounds(ShmChannel& channel, TcpGroup& across) : channel_(channel), across_(across) {}

    // Call this before any of the others: all ranks of the host are in the same call when it returns. A
    // caller that begins with staged data saves a wait by leaving it out.
    void announce() {
        if (announced_) return;
        announced_ = true;
        channel_.announce();
        channel_.await_all();
    }

    // Reduces this rank's slice from the inputs of all ranks, as partial results at `partial`. in(place,
    // piece) is where this rank has that piece of a slice.
    template <class In>
    void reduce(const PartialKind& kind, In in, std::span<const Range> slices, std::byte* partial) {
        const int n = channel_.world_size();
        const int self = channel_.rank();
        const std::size_t element = size_of(kind.type);
        // A stage holds as much of each slice as there is room for all.
        const std::size_t step = channel_.stage_size() / static_cast<std::size_t>(n) / kShmLine * kShmLine;
        const auto stage = [&](std::size_t i, std::byte* to) {
            for (int j = 1; j < n; ++j) {
                const Range part = part_of(at(slices, other(j)), i, step);
                copy_bytes(to + static_cast<std::size_t>(other(j)) * step, in(other(j), part), part.size);
            }
        };
        const auto use = [&](std::size_t i, std::uint64_t round) {
            for (int j = 1; j < n; ++j) channel_.await_staged(other(j), round);
            const Range part = part_of(at(slices, self), i, step);
            std::byte* out = partial + i * step / element * size_of(kind.carried);
            for (std::size_t done = 0; done < part.size; done += kReduceBlock) {
                const auto source = [&](int place) {
                    if (place == self) return static_cast<const std::byte*>(in(self, part)) + done;
                    return static_cast<const std::byte*>(channel_.stage(place, round)) +
                           static_cast<std::size_t>(self) * step + done;
                };
                reduce_partial(kind, n, out + done / element * size_of(kind.carried),
                               std::min(kReduceBlock, part.size - done) / element, source);
            }
        };
        run(rounds_for(slices, step), stage, use);
    }

    // Gives all ranks all slices, of which each has its own. out(place, piece) as above.
    template <class Out>
    void hand_round(Out out, std::span<const Range> slices) {
        const std::size_t step = channel_.stage_size();
        const auto stage = [&](std::size_t i, std::byte* to) {
            const Range part = part_of(at(slices, channel_.rank()), i, step);
            copy_bytes(to, out(channel_.rank(), part), part.size);
        };
        const auto use = [&](std::size_t i, std::uint64_t round) {
            for (int j = 1; j < channel_.world_size(); ++j) {
                const Range part = part_of(at(slices, other(j)), i, step);
                channel_.await_staged(other(j), round);
                copy_bytes(out(other(j), part), channel_.stage(other(j), round), part.size);
            }
        };
        run(rounds_for(slices, step), stage, use);
    }

    // Gives all ranks the bytes that the one in place `root` has.
    void broadcast(std::byte* data, std::size_t size, int root) {
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

    // Call this at the end of the call.
    void finish() { channel_.rounds_used(rounds_); }

  private:
    // stage(i, where to) then use(i, round) for all rounds i, staging one ahead.
    template <class Stage, class Use>
    void run(std::size_t rounds, Stage stage, Use use) {
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

    int other(int i) const { return (channel_.rank() + i) % channel_.world_size(); }

    ShmChannel& channel_;
    TcpGroup& across_;
    std::uint64_t rounds_ = 0;  // used so far
    bool announced_ = false;
};

class HostsBackend final : public Backend {
  public:
    HostsBackend(ShmSegment segment, std::unique_ptr<TcpBackend> tcp)
        : segment_(std::move(segment)),
          tcp_(std::move(tcp)),
          channel_(segment_, mesh()),
          lifeline_(segment_, channel_.rank(), ranks_of_host(tcp_->membership()).ranks, mesh().lifeline(),
                    &channel_.waiting()),
          across_(mesh(), *ranks_across_hosts(tcp_->membership())),
          ranks_by_host_(ranks_by_host(tcp_->membership())),
          slices_(static_cast<std::size_t>(channel_.world_size())) {}

    void run(const Task& task) override {
        const Way way = way_by_hosts(task.call.operation);
        if (way == nullptr || (task.parts && task.parts->counted)) return run_over_tcp(task);
        PeerMesh::Operation operation = tcp_->begin(task.call, task.timeout);
        operation.deadline = Deadline::clock::now() + operation.timeout.length;
        const ShmTurn turn(channel_, operation);
        try {
            (this->*way)(task, operation);
        } catch (const LinkLost& lost) {
            mesh().fail_lost(lost, operation);
        }
    }

    std::vector<int> leave(Deadline deadline) override { return tcp_->leave(deadline); }
    void abort(const std::string& reason) override { tcp_->abort(reason); }
    std::optional<Verdict> verdict() const override { return tcp_->verdict(); }
    void set_timeout(std::chrono::milliseconds timeout) override { tcp_->set_timeout(timeout); }

  private:
    using Way = void (HostsBackend::*)(const Task& task, const PeerMesh::Operation& operation);
    // Null for what goes between all ranks over TCP, wherever they are; so does what has counted parts.
    static Way way_by_hosts(Operation operation) {
        static constexpr std::pair<Operation, Way> kWays[] = {
            {Operation::all_reduce, &HostsBackend::all_reduce},
            {Operation::reduce_scatter, &HostsBackend::reduce_scatter},
            {Operation::all_gather, &HostsBackend::all_gather},
            {Operation::broadcast, &HostsBackend::broadcast},
            {Operation::barrier, &HostsBackend::barrier}};
        for (const auto& [known, way] : kWays) {
            if (known == operation) return way;
        }
        return nullptr;
    }

    void all_reduce(const Task& task, const PeerMesh::Operation& operation) {
        if (bytes_of(task) <= kHostsWholeVector) return all_reduce_whole(task, operation);
        const PartialKind kind = partial_kind(task.call, mesh().world_size());
        const std::size_t element = size_of(kind.type);
        const std::size_t chunks = chunks_for(task.call.count * size_of(kind.carried), channel_.world_size());
        const auto slices = [&](std::size_t chunk) {
            return even_slices(
                chunk_range(task.call.count, static_cast<int>(chunks), static_cast<int>(chunk)), element);
        };
        const std::size_t room = slices(0)[0].size / element * size_of(kind.carried);
        make_room(partials_, std::min<std::size_t>(chunks, 2) * room, mesh(), operation);
        const auto partial = [&](std::size_t chunk) { return partials_.data() + chunk % 2 * room; };
        HostsRounds rounds(channel_, across_);
        const auto output = [&](int, const Range& piece) { return output_of(task) + piece.begin; };
        const auto reduce = [&](std::size_t chunk) {
            const auto in = [&](int, const Range& piece) { return input_of(task) + piece.begin; };
            rounds.reduce(kind, in, slices(chunk), partial(chunk));
        };
        const auto hand_round = [&](std::size_t chunk) {
            const auto all = slices(chunk);
            finish_partial(kind, output_of(task) + own_slice().begin, partial(chunk),
                           own_slice().size / element);
            rounds.hand_round(output, all);
        };
        const auto start = [&](std::size_t chunk) {
            slices(chunk);
            across_.start_all_reduce(partial(chunk), partial(chunk), own_slice().size / element, kind.across,
                                     operation);
        };
        reduce(0);
        if (chunks == 1) {
            across_.all_reduce(partial(0), partial(0), own_slice().size / element, kind.across, operation);
            hand_round(0);
            return rounds.finish();
        }
        start(0);
        for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
            if (chunk + 1 < chunks) reduce(chunk + 1);
            across_.finish(operation);
            if (chunk + 1 < chunks) start(chunk + 1);
            hand_round(chunk);
        }
        rounds.finish();
    }

    void all_reduce_whole(const Task& task, const PeerMesh::Operation& operation) {
        const std::size_t count = task.call.count;
        const PartialKind kind = partial_kind(task.call, mesh().world_size());
        copy_bytes(channel_.slot(channel_.rank()), task.in, bytes_of(task));
        channel_.announce();
        channel_.await_all();
        make_room(partials_, count * size_of(kind.carried), mesh(), operation);
        std::byte* partial = partials_.data();
        reduce_partial(kind, channel_.world_size(), partial, count,
                       [&](int place) { return channel_.slot(place); });
        across_.all_reduce(partial, partial, count, kind.across, operation);
        finish_partial(kind, output_of(task), partial, count);
    }

    void reduce_scatter(const Task& task, const PeerMesh::Operation& operation) {
        const std::size_t count = task.call.count;
        const PartialKind kind = partial_kind(task.call, mesh().world_size());
        const std::size_t room = count * size_of(kind.carried);
        make_room(partials_, static_cast<std::size_t>(hosts()) * room, mesh(), operation);
        const auto partial = [&](int host) {
            return partials_.data() + static_cast<std::size_t>(host) * room;
        };
        HostsRounds rounds(channel_, across_);
        rounds.announce();
        for (int host = 0; host < hosts(); ++host) {
            const std::vector<int>& ranks = ranks_by_host_[static_cast<std::size_t>(host)];
            const auto in = [&](int place, const Range& piece) {
                return input_part(task, ranks[static_cast<std::size_t>(place)]) +
                       (piece.begin - slices_[static_cast<std::size_t>(place)].begin);
            };
            rounds.reduce(kind, in, slices_of_host(host, bytes_of(task)), partial(host));
        }
        rounds.finish();
        std::byte* own = partial(across_.index());
        across_.reduce_scatter(
            across_.even_parts(partials_.data(), static_cast<std::size_t>(hosts()) * count, kind.carried),
            own, kind.carried, kind.op, operation);
        finish_partial(kind, output_of(task), own, count);
    }

    void all_gather(const Task& task, const PeerMesh::Operation& operation) {
        const std::size_t bytes = bytes_of(task);
        HostsRounds rounds(channel_, across_);
        rounds.announce();
        const std::size_t whole = static_cast<std::size_t>(hosts()) * bytes;
        make_room(partials_, whole, mesh(), operation);
        across_.all_gather(input_of(task), across_.even_parts(partials_.data(), whole, DataType::u8),
                           operation);
        for (int host = 0; host < hosts(); ++host) {
            const std::vector<int>& ranks = ranks_by_host_[static_cast<std::size_t>(host)];
            const auto out = [&](int place, const Range& piece) {
                return output_part(task, ranks[static_cast<std::size_t>(place)]) +
                       (piece.begin - slices_[static_cast<std::size_t>(place)].begin);
            };
            const auto all = slices_of_host(host, bytes);
            copy_bytes(out(channel_.rank(), own_slice()),
                       partials_.data() + static_cast<std::size_t>(host) * bytes, bytes);
            rounds.hand_round(out, all);
        }
        rounds.finish();
    }

    void broadcast(const Task& task, const PeerMesh::Operation& operation) {
        const std::size_t bytes = bytes_of(task);
        int root_host = 0;
        int root_place = 0;
        for (int host = 0; host < hosts(); ++host) {
            const std::vector<int>& ranks = ranks_by_host_[static_cast<std::size_t>(host)];
            const auto found = std::find(ranks.begin(), ranks.end(), task.call.root);
            if (found == ranks.end()) continue;
            root_host = host;
            root_place = static_cast<int>(found - ranks.begin());
        }
        const bool on_root_host = across_.index() == root_host;
        HostsRounds rounds(channel_, across_);
        rounds.announce();
        if (on_root_host) rounds.broadcast(output_of(task), bytes, root_place);
        if (bytes <= kHostsWholeVector) {
            across_.broadcast(output_of(task), bytes, root_host, operation);
        } else {
            const auto all = even_slices({0, bytes}, 1);
            across_.broadcast(output_of(task) + own_slice().begin, own_slice().size, root_host, operation);
            const auto out = [&](int, const Range& piece) { return output_of(task) + piece.begin; };
            if (!on_root_host) rounds.hand_round(out, all);
        }
        rounds.finish();
    }

    void barrier(const Task&, const PeerMesh::Operation& operation) {
        channel_.announce();
        channel_.await_all();
        // A rank that gets through this knows of one rank on each host that all of that host have come.
        across_.barrier(operation);
    }

    void run_over_tcp(const Task& task) {
        {
            const ShmTurn turn(channel_, tcp_->prepare(task));
            channel_.announce();
        }
        tcp_->run(task);
    }

    // The slices of a range of elements, by place, in bytes.
    std::span<const Range> even_slices(const Range& elements, std::size_t element) {
        for (int place = 0; place < channel_.world_size(); ++place) {
            const Range part = chunk_range(elements.size, channel_.world_size(), place);
            slices_[static_cast<std::size_t>(place)] = {(elements.begin + part.begin) * element,
                                                        part.size * element};
        }
        return slices_;
    }

    // Returns the parts of a host's ranks, of a buffer with `bytes` for each rank of the communicator.
    std::span<const Range> slices_of_host(int host, std::size_t bytes) {
        const std::vector<int>& ranks = ranks_by_host_[static_cast<std::size_t>(host)];
        for (std::size_t place = 0; place < ranks.size(); ++place) {
            slices_[place] = {static_cast<std::size_t>(ranks[place]) * bytes, bytes};
        }
        return slices_;
    }

    const Range& own_slice() const { return slices_[static_cast<std::size_t>(channel_.rank())]; }
    int hosts() const noexcept { return across_.size(); }
    PeerMesh& mesh() noexcept { return tcp_->mesh(); }

    // Members end in the reverse of this order: the lifeline wakes sleepers in the segment.
    ShmSegment segment_;
    std::unique_ptr<TcpBackend> tcp_;
    ShmChannel channel_;
    ShmLifeline lifeline_;
    TcpGroup across_;
    const std::vector<std::vector<int>> ranks_by_host_;
    // Kept between calls, so that a call of a size seen before allocates nothing.
    std::vector<std::byte> partials_;
    std::vector<Range> slices_;
};

}  // namespace

std::unique_ptr<Backend> make_hosts_backend(ShmSegment segment, std::unique_ptr<TcpBackend> tcp) {
    return std::make_unique<HostsBackend>(std::move(segment), std::move(tcp));
}

}  // namespace detail
}  // namespace ddprun
