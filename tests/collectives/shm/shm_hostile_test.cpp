// A rank that writes into the memory it shares what no rank writes: the others end with an error that names
// it, or with a result.
//
// Ranks are threads of this program, so a rank that follows a wrong number ends the test itself. The hostile
// one says what it wants in the words of its lines, in the place of its communicator.
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <latch>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "collectives/messages/message_exchange.hpp"
#include "collectives/messages/message_frames.hpp"
#include "collectives/messages/message_line.hpp"
#include "collectives/messages/shm_message_line.hpp"
#include "collectives/session/bootstrap.hpp"
#include "collectives/shm/message_memory.hpp"
#include "collectives/shm/shm_segment.hpp"
#include "rendezvous/system/shared_memory.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/memory_store.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;
using Word = std::atomic<std::uint64_t>;

constexpr int kHostile = 1;
constexpr std::size_t kCount = 100'000;

// The shared memory of the only communicator there is, found as any process could.
class Lines {
  public:
    explicit Lines(int ranks) {
        std::ifstream maps("/proc/self/maps");
        for (std::string line; std::getline(maps, line);) {
            if (line.find(kShmName) == std::string::npos) continue;
            std::size_t begin = 0;
            std::size_t end = 0;
            char dash = 0;
            std::size_t offset = 0;
            std::string modes;
            std::istringstream(line) >> std::hex >> begin >> dash >> end >> modes >> offset;
            if (base_ != nullptr && offset == 0) break;  // the other rank's
            // The system lists parts of it apart, where pools are mapped in another way.
            if (base_ == nullptr) base_ = reinterpret_cast<std::byte*>(begin);
            if (reinterpret_cast<std::byte*>(begin) == base_ + size_) size_ += end - begin;
        }
        layout_.emplace(ranks, size_);
    }

    const ShmLayout& layout() const { return *layout_; }
    std::byte* base() const { return base_; }
    template <class T>
    T& at(std::size_t offset) const {
        return *reinterpret_cast<T*>(base_ + offset);
    }
    MessageMemory messages(int ranks) const { return {base_ + layout_->messages(), ranks, kHostile}; }

    // Makes the call that rank 0 makes next, with these two words as its payload, and `last` as the place of
    // the last to come.
    void join_call(std::uint64_t before, std::array<std::uint64_t, 2> words, int last = kHostile,
                   std::uint64_t other_bits = 0) const {
        std::uint64_t stamp = 0;
        while ((stamp = latest_stamp()) == before) std::this_thread::yield();
        const int bank = static_cast<int>((stamp >> 32) % 2);
        std::memcpy(at<ShmFlag>(layout_->flag(kHostile, bank)).payload.data(), words.data(), sizeof(words));
        at<ShmFlag>(layout_->flag(kHostile, bank)).stamp.store(stamp ^ other_bits);
        auto& meeting = at<ShmMeeting>(layout_->meeting());
        meeting.last.store(last);
        meeting.complete.store(stamp >> 32);
    }
    std::uint64_t latest_stamp() const {
        const std::uint64_t even = at<ShmFlag>(layout_->flag(0, 0)).stamp.load();
        const std::uint64_t odd = at<ShmFlag>(layout_->flag(0, 1)).stamp.load();
        return std::max(even, odd);
    }

  private:
    std::byte* base_ = nullptr;
    std::size_t size_ = 0;
    std::optional<ShmLayout> layout_;
};

// Tells whether a thread sleeps on the word, in the kernel, and lets it sleep.
bool is_slept_on(std::atomic<std::uint32_t>& word) {
    return ::syscall(SYS_futex, &word, FUTEX_CMP_REQUEUE, 0, 1L, &word, word.load()) > 0;
}

// Rank 0 does `honest`, which must end with the hostile one's name; the hostile one does `hostile` meanwhile.
using Honest = std::function<void(Communicator&)>;
using Hostile = std::function<void(const Lines&, std::uint64_t stamp, const std::atomic<bool>& over)>;
void require_named(const Honest& honest, const Hostile& hostile, bool crowded = false) {
    const auto data = std::make_shared<MemoryStoreData>();
    std::latch both(2);
    std::latch known(2);
    std::latch ended(2);
    std::atomic<bool> over{false};
    run_ranks(2, [&](int rank) {
        if (crowded) {
            cpu_set_t all;
            cpu_set_t one;
            CPU_ZERO(&all);
            CPU_ZERO(&one);
            ::sched_getaffinity(0, sizeof(all), &all);
            int first = 0;
            while (!CPU_ISSET(first, &all)) ++first;
            CPU_SET(first, &one);
            ::sched_setaffinity(0, sizeof(one), &one);
        }
        Communicator comm(open_session(std::make_shared<MemoryStore>(data), "127.0.0.1",
                                       {rank, 2, -1, -1, 0, Transport::automatic}, CommunicatorOptions{}));
        both.arrive_and_wait();
        const Lines lines(2);
        const std::uint64_t stamp = lines.latest_stamp();
        known.arrive_and_wait();
        std::exception_ptr failed;
        try {
            if (rank == kHostile) {
                hostile(lines, stamp, over);
            } else {
                const CollectiveError error = expect_error(Code::mismatch, {kHostile}, [&] { honest(comm); });
                expect(std::string(error.what()).find("rank 1 wrote ") != std::string::npos, error.what());
            }
        } catch (...) {
            failed = std::current_exception();
        }
        if (rank != kHostile) over = true;
        // The lines may be those of the other one's mapping.
        ended.arrive_and_wait();
        if (failed) std::rethrow_exception(failed);
    });
}

void reduce_in_pool(Communicator& comm) {
    const auto data = comm.allocate<float>(kCount);
    comm.all_reduce(data.span(), ReduceOp::sum);
}

void receive_for_ever(Communicator& comm) {
    std::uint64_t word = 0;
    comm.recv_tagged(&word, sizeof(word), kHostile, 7);
}

void put_until(const std::atomic<bool>& over, MessageLine& line, const MessageFrame& frame,
               const std::byte* payload = nullptr) {
    while (!over && !line.put(frame, payload)) std::this_thread::yield();
}

}  // namespace

TEST_CASE("a buffer's place that is none in the shared memory names its rank", "[shm][hostile]") {
    const auto cases = [](const Lines& lines) {
        const ShmLayout& layout = lines.layout();
        const std::uint64_t own = layout.pool(kHostile);
        const std::uint64_t end = own + layout.pool_size();
        const std::uint64_t bytes = kCount * sizeof(float);
        return std::vector<std::array<std::uint64_t, 2>>{{~std::uint64_t{0}, own},
                                                         {std::uint64_t{1} << 62, own},
                                                         {64, own},
                                                         {layout.pool(0), own},
                                                         {end - bytes + 4, own},
                                                         {own + 1, own},
                                                         {own, 0},
                                                         {own, ~std::uint64_t{3}},
                                                         {own, layout.pool(0)},
                                                         {own, end - bytes + 4},
                                                         {own, end}};
    };
    for (std::size_t i = 0; i < 11; ++i) {
        INFO("case " << i);
        require_named(reduce_in_pool, [&](const Lines& lines, std::uint64_t stamp, const auto&) {
            expect(cases(lines).size() == 11, "all cases");
            lines.join_call(stamp, cases(lines)[i]);
        });
        if (i > 5) continue;
        require_named(
            [](Communicator& comm) {
                std::vector<float> all(2 * kCount);
                const std::vector<float> own(kCount);
                comm.all_gather(std::span(own), std::span(all));
            },
            [&](const Lines& lines, std::uint64_t stamp, const auto&) {
                lines.join_call(stamp, cases(lines)[i]);
            });
    }
}

TEST_CASE("what is no call, no place and no reason in the shared memory names its rank", "[shm][hostile]") {
    const auto barrier = [](Communicator& comm) { comm.barrier(); };
    for (const std::uint64_t kinds :
         {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{0x4040404040404040}}) {
        require_named(barrier, [&](const Lines& lines, std::uint64_t stamp, const auto&) {
            for (int bank = 0; bank < 2; ++bank) {
                auto& record = lines.at<ShmCallRecord>(lines.layout().record(kHostile, bank));
                auto& own = lines.at<ShmCallRecord>(lines.layout().record(0, bank));
                record.kinds.store(kinds);
                if (kinds != 0) continue;
                while (lines.latest_stamp() == stamp) std::this_thread::yield();
                record.kinds.store(own.kinds.load());
                record.count.store(own.count.load());
                record.sequence.store(own.sequence.load());
            }
            lines.join_call(stamp, {0, 0}, kHostile, 1);
        });
    }
    for (const int last : {2, -1, 1'000'000'000, -2'000'000'000}) {
        require_named(
            [](Communicator& comm) {
                float one = 1;
                comm.all_reduce(std::span(&one, 1), ReduceOp::sum);
            },
            [&](const Lines& lines, std::uint64_t stamp, const auto&) {
                lines.join_call(stamp, {0, 0}, last);
            },
            true);
    }
    for (const std::uint32_t first : {3U, 77'777U, ~0U, 2U}) {
        require_named(barrier, [&](const Lines& lines, std::uint64_t, const auto& over) {
            // Else this rank's own thread may read it before it sleeps, and take rank 0 for the writer.
            auto& heard = lines.at<ShmLife>(lines.layout().life(0)).word;
            while (!over && !is_slept_on(heard)) std::this_thread::yield();
            lines.at<ShmLife>(lines.layout().life(kHostile)).last_record_size.store(first == 2 ? ~0U : 0);
            lines.at<ShmEnd>(lines.layout().end()).first.store(first);
            auto& word = lines.at<ShmLife>(lines.layout().life(kHostile)).word;
            word.fetch_and(~static_cast<std::uint32_t>(FUTEX_WAITERS));
            futex_wake_all(word);
        });
    }
}

TEST_CASE("messages that are none, and more than may be kept, name their rank", "[messages][hostile]") {
    const std::vector<std::byte> eager(8192);
    const auto tries = [](const MessageFrame& frame) {
        require_named(receive_for_ever, [&](const Lines& lines, std::uint64_t, const auto& over) {
            const MessageMemory memory = lines.messages(2);
            ShmMessageLine line(memory, 0);
            put_until(over, line, frame);
        });
    };
    for (const std::uint32_t id : {kOfferIds, std::uint32_t{1} << 20, ~0U})
        tries({FrameKind::offer, id, 1, 7, 8, 0});
    tries({FrameKind::none, 0, 0, 7, 8, 0});
    tries({FrameKind::credit, 0, 0, 7, 8, 0});
    tries({FrameKind::eager, 0, 0, 7, 0, 0, 25});
    // So many bytes are neither in the cell nor in the ring.
    require_named(receive_for_ever, [&](const Lines& lines, std::uint64_t, const auto&) {
        const MessageMemory memory = lines.messages(2);
        MessageCell& cell = memory.cell(0, kHostile, 0);
        cell.tag = 7;
        cell.bytes = ~std::uint64_t{0};
        cell.stamp.store(std::uint64_t{1} << 8 | static_cast<std::uint64_t>(FrameKind::eager));
        ring_bell(memory.bell(0));
    });
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, eager.size()}) {
        require_named(receive_for_ever, [&](const Lines& lines, std::uint64_t, const auto& over) {
            const MessageMemory memory = lines.messages(2);
            ShmMessageLine line(memory, 0);
            for (std::uint64_t tag = 100; !over; ++tag)
                put_until(over, line, {FrameKind::eager, 0, 0, tag, bytes, 0}, eager.data());
        });
    }
    require_named(receive_for_ever, [&](const Lines& lines, std::uint64_t, const auto& over) {
        const MessageMemory memory = lines.messages(2);
        ShmMessageLine line(memory, 0);
        for (std::uint32_t i = 0; !over; ++i)
            put_until(over, line, {FrameKind::offer, i % kOfferIds, i, 100 + i, 8, 0});
    });
}

TEST_CASE("a receiver that asks twice, and one that has received what nobody sent, is named",
          "[messages][hostile]") {
    const std::vector<std::byte> large(400'000);
    require_named([&](Communicator& comm) { comm.send_tagged(large.data(), large.size(), kHostile, 7); },
                  [&](const Lines& lines, std::uint64_t, const auto& over) {
                      const MessageMemory memory = lines.messages(2);
                      ShmMessageLine line(memory, 0);
                      MessageFrame frame;
                      const std::byte* payload = nullptr;
                      while (!over && !line.take(frame, payload)) std::this_thread::yield();
                      line.release();
                      for (int i = 0; i < 2; ++i)
                          put_until(over, line, {FrameKind::accept, frame.id, frame.turn, 0, 0, 0});
                      // A message that has gone is asked for by nobody, and this one does not fit into the
                      // ring.
                      const auto& heard = memory.counters(0, kHostile).cells;
                      while (!over && heard.load() < 2) std::this_thread::yield();
                      while (!over) line.take(frame, payload) ? line.release() : std::this_thread::yield();
                  });
    require_named(
        [&](Communicator& comm) {
            std::uint64_t word = 0;
            comm.recv_tagged(&word, sizeof(word), kHostile, 8);
            for (int i = 0; i < 1000; ++i) comm.send_tagged(large.data(), 4096, kHostile, 7);
        },
        [&](const Lines& lines, std::uint64_t, const auto& over) {
            const MessageMemory memory = lines.messages(2);
            memory.counters(kHostile, 0).handed_on.store(std::uint64_t{1} << 40);
            ShmMessageLine line(memory, 0);
            put_until(over, line, {FrameKind::eager, 0, 0, 8, sizeof(Word), 0}, large.data());
            MessageFrame frame;
            const std::byte* payload = nullptr;
            while (!over) line.take(frame, payload) ? line.release() : std::this_thread::yield();
        });
}

TEST_CASE("random words in a rank's own lines end nobody but by an error", "[shm][hostile]") {
    const auto seed = std::random_device{}();
    INFO("seed " << seed);
    for (int round = 0; round < 6; ++round) {
        CommunicatorOptions options;
        options.operation_timeout = std::chrono::milliseconds(500);
        options.leave_timeout = std::chrono::milliseconds(500);
        std::latch ended(3);
        run_communicators(
            3,
            [&](Communicator& comm) {
                CountDown last(ended);
                const Lines lines(3);
                const ShmLayout& layout = lines.layout();
                const MessageMemory memory = lines.messages(3);
                std::mt19937_64 random(seed + static_cast<unsigned>(round));
                // Which of the rank's own lines, and how many words of it.
                const std::vector<std::pair<std::byte*, std::size_t>> own{
                    {lines.base() + layout.flag(kHostile, 0), 2 * sizeof(ShmFlag)},
                    {lines.base() + layout.record(kHostile, 0), 2 * sizeof(ShmCallRecord)},
                    {lines.base() + layout.progress(kHostile), sizeof(ShmProgress)},
                    {lines.base() + layout.wakeup(kHostile), sizeof(ShmWakeup)},
                    {lines.base() + layout.cpus(kHostile), sizeof(ShmCpus)},
                    {lines.base() + layout.life(kHostile) + sizeof(Word), sizeof(ShmLife) - sizeof(Word)},
                    {reinterpret_cast<std::byte*>(&memory.counters(kHostile, 0)), sizeof(MessageCounters)},
                    {reinterpret_cast<std::byte*>(&memory.cell(0, kHostile, 0)), sizeof(MessageCell)},
                    {reinterpret_cast<std::byte*>(&memory.offer(kHostile, 0)), 4 * sizeof(MessageOffer)}};
                std::atomic<bool> over{false};
                std::thread writer([&] {
                    while (comm.rank() == kHostile && !over) {
                        const auto& [place, bytes] = own[random() % own.size()];
                        auto& word = *reinterpret_cast<Word*>(place + random() % (bytes / 8) * 8);
                        // Some are near to what is right.
                        word.store(random() % 2 == 0 ? random()
                                                     : word.load() ^ std::uint64_t{1} << random() % 64);
                        std::this_thread::yield();
                    }
                });
                const auto data = comm.allocate<float>(kCount);
                const std::vector<Honest> calls{
                    [&](Communicator& all) { all.all_reduce(data.span(), ReduceOp::sum); },
                    [&](Communicator& all) { all.all_reduce(data.span().first(3), ReduceOp::sum); },
                    [&](Communicator& all) { all.broadcast(data.span(), kHostile); },
                    [&](Communicator& all) { all.barrier(); },
                    [&](Communicator& all) {
                        const int to = (all.rank() + 1) % 3;
                        auto sent = all.start_send_tagged(data.data(), kCount * sizeof(float), to, 3);
                        std::vector<float> here(kCount);
                        all.recv_tagged(here.data(), kCount * sizeof(float), (all.rank() + 2) % 3, 3);
                        sent.wait();
                    }};
                try {
                    std::mt19937 alike(static_cast<unsigned>(seed) + static_cast<unsigned>(round));
                    for (int i = 0; i < 200; ++i) calls[alike() % calls.size()](comm);
                } catch (const CollectiveError& error) {
                    expect(!error.culprits().empty() || error.code() == Code::timed_out, error.what());
                }
                over = true;
                writer.join();
                last.now();
                ended.wait();
            },
            options);
    }
}
