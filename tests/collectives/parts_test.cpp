// Parts by pointer and by count against the straightforward reference. Ranks are threads.
#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "collectives/communicator.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/operation_checks.hpp"
#include "tests/support/reference.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Counts = std::vector<std::vector<std::size_t>>;  // what rank s has for rank t

// Some are none; others lie on both sides of each switch to an algorithm for more.
Counts random_counts(std::mt19937& random, int n, std::size_t most) {
    const auto ranks = static_cast<std::size_t>(n);
    Counts counts(ranks, std::vector<std::size_t>(ranks));
    for (auto& row : counts) {
        for (std::size_t& count : row) count = random() % 4 == 0 ? 0 : random() % (most + 1);
    }
    return counts;
}

// An element that says whose it is, whom it is for, and where it stands.
template <class T>
T element(int from, int to, std::size_t i) {
    return T(static_cast<float>(1 + (static_cast<std::size_t>(from * 7 + to * 3) + i) % 11));
}

// Parts that lie in one block of memory in a random order, with gaps; what is around them must stay as it is.
template <class T>
class Scattered {
  public:
    Scattered(std::mt19937& random, const std::vector<std::size_t>& counts) {
        std::vector<std::size_t> order(counts.size());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random);
        std::vector<std::size_t> begins(counts.size());
        std::size_t end = 1;
        for (const std::size_t i : order) {
            begins[i] = end;
            end += counts[i] + 1 + random() % 3;
        }
        memory_.assign(end + 1, gap());
        for (std::size_t i = 0; i < counts.size(); ++i)
            parts.push_back(std::span(memory_).subspan(begins[i], counts[i]));
    }
    std::vector<std::span<const T>> input() const { return {parts.begin(), parts.end()}; }
    // Forgets the parts.
    bool gaps_are_whole() {
        for (const std::span<T> part : parts) std::fill(part.begin(), part.end(), gap());
        return std::ranges::count(memory_, gap()) == static_cast<std::ptrdiff_t>(memory_.size());
    }

    std::vector<std::span<T>> parts;

  private:
    static T gap() { return T(99.0F); }
    std::vector<T> memory_;
};

template <class T>
std::vector<T> elements(int from, int to, std::size_t count) {
    std::vector<T> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(element<T>(from, to, i));
    return all;
}

template <class T>
class Round {
  public:
    Round(Communicator& comm, unsigned seed, const Counts& counts)
        : comm_(comm), self_(static_cast<std::size_t>(comm.rank())), random_(seed + self_), counts_(counts) {
        for (std::size_t s = 0; s < counts_.size(); ++s) column_.push_back(counts_[s][self_]);
    }

    void all_to_all() {
        Scattered<T> in = filled(counts_[self_]);
        Scattered<T> out(random_, column_);
        comm_.all_to_all<T>(in.input(), out.parts);
        check("all_to_all", out, column_, [&](int from) { return std::pair(from, comm_.rank()); });
    }

    // What rank s has for rank 0 is its part for all.
    void all_gather() {
        const std::vector<T> mine = elements<T>(comm_.rank(), 0, counts_[self_][0]);
        Scattered<T> out(random_, first_of_each());
        comm_.all_gather<T>(mine, out.parts);
        check("all_gather", out, first_of_each(), [](int from) { return std::pair(from, 0); });
        Scattered<T> in_place(random_, first_of_each());
        std::copy(mine.begin(), mine.end(), in_place.parts[self_].begin());
        comm_.all_gather<T>(in_place.parts[self_], in_place.parts);
        check("all_gather in place", in_place, first_of_each(), [](int from) { return std::pair(from, 0); });
    }

    void rooted(int root) {
        const bool is_root = comm_.rank() == root;
        const auto at_root = static_cast<std::size_t>(root);
        const std::vector<std::size_t> none;
        const std::vector<T> mine = elements<T>(comm_.rank(), 0, counts_[self_][0]);
        Scattered<T> out(random_, is_root ? first_of_each() : none);
        comm_.gather<T>(mine, out.parts, root);
        check("gather", out, is_root ? first_of_each() : none, [](int from) { return std::pair(from, 0); });

        const Scattered<T> in = filled(is_root ? counts_[self_] : none);
        std::vector<T> got(counts_[at_root][self_]);
        comm_.scatter<T>(in.input(), got, root);
        expect(got == elements<T>(root, comm_.rank(), got.size()),
               "scatter from rank " + std::to_string(root));
    }

    // Rank 0's counts are what all ranks have for each.
    void reduce_scatter(const Reduction& op) {
        const Scattered<T> in = filled(counts_[0]);
        std::vector<T> got(counts_[0][self_]);
        comm_.reduce_scatter<T>(in.input(), got, op);
        const double scalar = op.op == ReduceOp::premul_sum ? op.scalar : 1;
        for (std::size_t i = 0; i < got.size(); ++i) {
            float sum = 0;
            for (int from = 0; from < comm_.world_size(); ++from)
                sum += static_cast<float>(element<T>(from, comm_.rank(), i)) * static_cast<float>(scalar);
            expect(got[i] == T(sum), "reduce_scatter at " + std::to_string(i));
        }
    }

  private:
    std::vector<std::size_t> first_of_each() const {
        std::vector<std::size_t> counts;
        for (const auto& row : counts_) counts.push_back(row[0]);
        return counts;
    }
    Scattered<T> filled(const std::vector<std::size_t>& counts) {
        Scattered<T> made(random_, counts);
        for (std::size_t to = 0; to < counts.size(); ++to) {
            const auto all = elements<T>(comm_.rank(), static_cast<int>(to), counts[to]);
            std::copy(all.begin(), all.end(), made.parts[to].begin());
        }
        return made;
    }
    template <class Whose>
    void check(const std::string& what, Scattered<T>& out, const std::vector<std::size_t>& counts,
               Whose whose) {
        for (std::size_t from = 0; from < counts.size(); ++from) {
            const auto [source, target] = whose(static_cast<int>(from));
            const auto expected = elements<T>(source, target, counts[from]);
            expect(std::ranges::equal(out.parts[from], expected), what + ", part " + std::to_string(from));
        }
        expect(out.gaps_are_whole(), what + " has written beside its parts");
    }

    Communicator& comm_;
    const std::size_t self_;
    std::mt19937 random_;
    const Counts& counts_;
    std::vector<std::size_t> column_;
};

template <class T>
void check_all(Communicator& comm, unsigned seed, std::size_t most) {
    std::mt19937 random(seed);
    const Counts counts = random_counts(random, comm.world_size(), most);
    Round<T> round(comm, seed, counts);
    round.all_to_all();
    round.all_gather();
    round.rooted(static_cast<int>(seed % static_cast<unsigned>(comm.world_size())));
    round.reduce_scatter(ReduceOp::sum);
    round.reduce_scatter(premul_sum(2));
}

std::size_t most_in(int round) {
    constexpr std::size_t kMost[] = {0, 3, 40, 5'000, 70'001, 600'001};
    return kMost[static_cast<std::size_t>(round) % (kIsSanitized ? 5 : 6)];
}

}  // namespace

TEST_CASE("parts of any sizes arrive wherever they are wanted", "[parts][property]") {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    for (const int n : {1, 2, 3, 4, 7}) {
        run_communicators(n, [&](Communicator& comm) {
            for (int round = 0; round < 12; ++round) {
                if (most_in(round) > 10'000 && n > 4) continue;
                check_all<float>(comm, seed + static_cast<unsigned>(round), most_in(round));
                if (n <= 3) check_all<BFloat16>(comm, seed + static_cast<unsigned>(round), most_in(round));
            }
        });
    }
}

TEST_CASE("parts of any sizes cross hosts", "[parts][property]") {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    for (const Hosts& hosts : {host_names(2, 2), Hosts{"a", "a", "b"}}) {
        run_on_hosts(hosts, [&](Communicator& comm) {
            for (int round = 0; round < 6; ++round)
                check_all<float>(comm, seed + static_cast<unsigned>(round), most_in(round));
        });
    }
}

namespace {

// As all_gather and reduce_scatter of equal parts in one piece, but every second rank gives them by pointers,
// in reverse.
void check_equal_lists(Communicator& comm, std::size_t count) {
    const auto n = static_cast<std::size_t>(comm.world_size());
    const bool by_pointers = comm.rank() % 2 == 0;
    std::vector<float> whole(n * count);
    std::vector<Part> parts(n);
    std::vector<float> in_order;
    for (std::size_t rank = 0; rank < n; ++rank) {
        const std::size_t place = by_pointers ? n - 1 - rank : rank;
        parts[rank] = {whole.data() + place * count, count};
    }
    const auto parts_in_order = [&] {
        std::vector<float> all;
        for (const Part& part : parts) {
            const auto* data = static_cast<const float*>(part.data);
            all.insert(all.end(), data, data + count);
        }
        return all;
    };
    std::vector<float> expected;
    for (std::size_t rank = 0; rank < n; ++rank) {
        const auto theirs = elements<float>(static_cast<int>(rank), 0, count);
        expected.insert(expected.end(), theirs.begin(), theirs.end());
    }
    const auto mine = elements<float>(comm.rank(), 0, count);
    OperationRequest request{Operation::all_gather, mine.data(), whole.data(), count};
    if (by_pointers) request.out_parts = parts;
    comm.submit(request);
    expect(parts_in_order() == expected, "all_gather into pointers");

    std::vector<float> sum(count);
    request = {Operation::reduce_scatter, whole.data(), sum.data(), count};
    if (by_pointers) request.in_parts = parts;
    comm.submit(request);
    auto times = elements<float>(comm.rank(), 0, count);
    for (float& x : times) x *= static_cast<float>(n);
    expect(sum == times, "reduce_scatter from pointers");
}

}  // namespace

TEST_CASE("equal parts by pointers are the same call as a buffer in one piece", "[parts]") {
    constexpr std::size_t kCounts[] = {0, 5, 3'000, 200'003};
    for (const int n : {1, 2, 3}) {
        run_communicators(n, [&](Communicator& comm) {
            for (const std::size_t count : kCounts) check_equal_lists(comm, count);
        });
    }
    run_on_hosts(host_names(2, 2), [&](Communicator& comm) {
        for (const std::size_t count : kCounts) check_equal_lists(comm, count);
    });
}

TEST_CASE("an all_to_all of parts in place", "[parts]") {
    for (const std::size_t count : {std::size_t{3}, std::size_t{200'003}}) {
        run_communicators(3, [&](Communicator& comm) {
            const int self = comm.rank();
            // Between two ranks both parts have the same size, other pairs have others.
            std::vector<std::vector<float>> data;
            for (int rank = 0; rank < 3; ++rank)
                data.push_back(elements<float>(self, rank, count * static_cast<std::size_t>(self + rank)));
            comm.all_to_all<float>({data.begin(), data.end()}, {data.begin(), data.end()});
            for (int rank = 0; rank < 3; ++rank) {
                const auto& part = data[static_cast<std::size_t>(rank)];
                expect(part == elements<float>(rank, self, part.size()), "part of " + std::to_string(rank));
            }
        });
    }
}

TEST_CASE("ranks that disagree about a part all hear who, and go on", "[parts]") {
    run_communicators(3, [](Communicator& comm) {
        const bool wrong = comm.rank() == 2;
        const std::vector<float> in(4, 1.0F);
        std::vector<float> out(12);
        const auto parts = [&](std::size_t third) {
            return std::vector<std::span<float>>{std::span(out).first(4), std::span(out).subspan(4, third),
                                                 std::span(out).subspan(8, 4)};
        };
        const auto error = expect_error(CollectiveErrorCode::invalid_argument, {1, 2},
                                        [&] { comm.all_gather<float>(in, parts(wrong ? 3 : 4)); });
        const std::string text = error.what();
        expect(text.find("rank 1 has 4 f32 for rank 2, which expects 3") != std::string::npos, text);
        expect(out == std::vector<float>(12), "nothing is written");
        // Also what was started, and what only the root knows.
        const auto work = comm.async().gather<float>(std::span(in).first(wrong ? 1 : 4), parts(4), 0);
        expect_error(CollectiveErrorCode::invalid_argument, {0, 2}, [&] { work.wait(); });
        comm.all_gather<float>(in, parts(4));
        expect(out == std::vector<float>(12, 1.0F), "the next one goes well");
    });
}

namespace {

template <class T>
void check_several(Communicator& comm, unsigned seed, const Reduction& op) {
    std::mt19937 random(seed);  // the same sizes on all ranks
    std::vector<std::size_t> counts;
    for (unsigned i = random() % 12; i > 0; --i)
        counts.push_back(random() % (most_in(static_cast<int>(random() % 6)) + 1));
    std::vector<std::vector<T>> data;
    for (const std::size_t count : counts) data.push_back(elements<T>(comm.rank(), 0, count));
    auto one_by_one = data;
    for (auto& each : one_by_one) comm.all_reduce(std::span(each), op);
    auto started = data;
    const Work work = comm.async().all_reduce<T>({started.begin(), started.end()}, op);
    comm.all_reduce<T>({data.begin(), data.end()}, op);
    work.wait();
    expect(data == one_by_one && started == one_by_one, "several buffers as one operation");
}

}  // namespace

TEST_CASE("several buffers are reduced as one operation", "[parts][property]") {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    const auto check_all = [&](Communicator& comm) {
        for (unsigned round = 0; round < 8; ++round) {
            check_several<float>(comm, seed + round, ReduceOp::sum);
            check_several<BFloat16>(comm, seed + round, ReduceOp::max);
            check_several<double>(comm, seed + round, premul_sum(0.5));
        }
    };
    for (const int n : {1, 2, 3}) run_communicators(n, check_all);
    run_on_hosts(host_names(2, 2), check_all);
}

TEST_CASE("a rank whose buffers have other sizes is named", "[parts]") {
    run_communicators(2, [](Communicator& comm) {
        std::vector<float> data(8);
        const auto error = expect_error([&] {
            comm.all_reduce<float>({std::span(data).first(4), std::span(data).last(comm.rank() == 0 ? 4 : 3)},
                                   ReduceOp::sum);
        });
        const std::string text = error.what();
        expect(error.code() == CollectiveErrorCode::mismatch && text.find("8 f32") != std::string::npos &&
                   text.find("7 f32") != std::string::npos,
               text);
    });
}

TEST_CASE("a rank that calls another form of it is named", "[parts]") {
    run_communicators(2, [](Communicator& comm) {
        std::vector<float> data(2);
        const auto error = expect_error([&] {
            if (comm.rank() == 0)
                comm.all_gather<float>(std::span(data).first(1),
                                       {std::span(data).first(1), std::span(data).last(1)});
            if (comm.rank() == 1) comm.all_gather(std::span(data).last(1), std::span(data));
        });
        expect(error.code() == CollectiveErrorCode::mismatch && error.operation() == "all_gather",
               error.what());
        const std::string text = error.what();
        expect(text.find("all_gather(by parts)") != std::string::npos, text);
    });
}

TEST_CASE("wrong parts are refused before anything is sent", "[parts]") {
    run_communicators(2, [](Communicator& comm) {
        std::vector<float> data(8), other(8);
        const auto part = [](std::vector<float>& of, std::size_t begin, std::size_t count) {
            return std::span(of).subspan(begin, count);
        };
        const auto refused = [&](const std::string& why, const std::function<void()>& body) {
            const auto error = expect_error(CollectiveErrorCode::invalid_argument, {}, body);
            expect(std::string(error.what()).find(why) != std::string::npos, error.what());
        };
        const std::vector<std::span<float>> apart{part(data, 0, 2), part(data, 2, 2)};
        const std::vector<std::span<const float>> read(apart.begin(), apart.end());
        refused("output of 1 parts for 2 ranks", [&] { comm.all_gather<float>(other, {part(data, 0, 8)}); });
        refused("input of 0 parts for 2 ranks", [&] { comm.all_to_all<float>({}, apart); });
        refused("overlap", [&] {
            comm.all_gather<float>(part(other, 0, 2), {part(data, 0, 2), part(data, 1, 2)});
        });
        refused("overlap", [&] { comm.all_to_all<float>(read, {part(data, 1, 1), part(other, 0, 2)}); });
        refused("output is null, but count is 2", [&] {
            comm.all_gather<float>(part(other, 0, 2),
                                   {part(data, 0, 2), std::span<float>(static_cast<float*>(nullptr), 2)});
        });
        const std::vector<Part> parts{{data.data(), 2}, {data.data() + 2, 1}};
        OperationRequest request{Operation::all_gather, other.data(), nullptr, 2};
        request.out_parts = parts;
        refused("a part of output has 1 elements, not 2", [&] { comm.submit(request); });
        request.operation = Operation::reduce_scatter;
        refused("its output has no parts", [&] { comm.submit(request); });
        OperationRequest sum{Operation::all_reduce, data.data(), data.data(), 8};
        sum.counted = true;
        refused("it has no parts", [&] { comm.submit(sum); });
        refused("output parts overlap", [&] {
            comm.all_reduce<float>({part(data, 0, 2), part(data, 1, 2)}, ReduceOp::sum);
        });
        sum.counted = false;
        sum.out_parts = parts;
        refused("parts of 3 elements for a count of 8", [&] { comm.submit(sum); });
        sum.in_parts = parts;
        refused("only its output has parts", [&] { comm.submit(sum); });
        // What is only read may be the same for all.
        comm.scatter<float>(comm.rank() == 0 ? std::vector<std::span<const float>>(2, part(data, 0, 2))
                                             : std::vector<std::span<const float>>{},
                            part(other, 0, 2), 0);
        comm.barrier();
    });
}
