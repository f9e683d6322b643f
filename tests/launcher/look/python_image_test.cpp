#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "launcher/look/bounded_reader.hpp"
#include "launcher/look/python_frames.hpp"
#include "tests/launcher/look/memory_image.hpp"
#include "tests/launcher/look/python_program.hpp"
#include "tests/launcher/look/stacks_checks.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

// By the version: nested_calls.py in the way "image", recorded by look_program.
std::map<std::string, MemoryImage> images() {
    std::map<std::string, MemoryImage> found;
    for (const auto& entry : fs::directory_iterator(DDPRUN_PYTHON_IMAGES)) {
        std::ifstream file(entry.path(), std::ios::binary);
        const std::string bytes(std::istreambuf_iterator<char>(file), {});
        found.emplace(entry.path().filename(), MemoryImage::parse(bytes));
    }
    return found;
}

std::optional<PythonStacks> stacks_in(const MemoryImage& image, const MemoryReader& memory) {
    const auto runtime = find_python(memory, image.mappings, "");
    if (!runtime) return std::nullopt;
    return read_python_stacks(memory, *runtime, image.threads);
}

bool is_as_recorded(const PythonStacks& stacks) {
    return stacks.threads.size() == 2 &&
           own_frames(stacks.threads[0]) == marked_frames({"wait", "數", "größe"}) &&
           own_frames(stacks.threads[1]) == marked_frames({"in_image", "main"});
}

// Gives another word where a pointer is read the second time, so often at most.
class ChangingMemory final : public MemoryReader {
  public:
    ChangingMemory(const MemoryReader& memory, int changes) : memory_(memory), changes_(changes) {}

    bool read(std::uintptr_t address, std::span<std::byte> into) const override {
        std::uint64_t word = 0;
        if (!memory_.read(address, into)) return false;
        if (into.size() != sizeof word) return true;
        std::memcpy(&word, into.data(), sizeof word);
        constexpr int kPointerBits = 47;
        if (word >> kPointerBits != 0 || ++times_[address] % 2 != 0 || changes_ == 0) return true;
        --changes_;
        into.front() ^= std::byte{8};
        return true;
    }

  private:
    const MemoryReader& memory_;
    mutable int changes_;
    mutable std::map<std::uintptr_t, int> times_;
};

// Answers each read with words of which most are addresses of what was read before: so chains of anything.
class AnyMemory final : public MemoryReader {
  public:
    explicit AnyMemory(std::mt19937_64& random) : random_(random) {}

    bool read(std::uintptr_t address, std::span<std::byte> into) const override {
        known_[random_() % known_.size()] = address;
        for (std::size_t place = 0; place < into.size(); place += sizeof(std::uint64_t)) {
            const std::uint64_t words[] = {known_[random_() % known_.size()], random_(), random_() % 300, 0};
            const std::uint64_t word = words[random_() % 4];
            std::memcpy(&into[place], &word, std::min(sizeof word, into.size() - place));
        }
        return random_() % 100 != 0;
    }

  private:
    std::mt19937_64& random_;
    mutable std::array<std::uintptr_t, 16> known_{};
};

// A process whose every thread has one endless stack of frames of one function: the longest work that there
// is.
class EndlessMemory final : public MemoryReader {
  public:
    bool read(std::uintptr_t address, std::span<std::byte> into) const override {
        // Every pointer leads on by some bytes; every text is long, every type is "code".
        for (std::size_t place = 0; place < into.size(); place += sizeof(std::uint64_t)) {
            std::uint64_t word = (address + place) * 2 + 0x10000;
            if (address % 8 != 0) word = 0;
            std::memcpy(&into[place], &word, std::min(sizeof word, into.size() - place));
        }
        return true;
    }
};

}  // namespace

TEST_CASE("Python: recorded memory of every version") {
    const auto all = images();
    CHECK(all.size() == 9);
    for (const auto& [version, image] : all) {
        INFO(version);
        const auto stacks = stacks_in(image, image);
        REQUIRE(stacks.has_value());
        CHECK(stacks->why_not == "");
        CHECK(stacks->version == version);
        CHECK(is_as_recorded(*stacks));
        REQUIRE(stacks->threads.size() == 2);
        CHECK(std::vector{stacks->threads[1].id, stacks->threads[0].id} == image.threads);
        for (const auto& thread : stacks->threads)
            CHECK_FALSE((thread.is_torn || thread.is_cut || thread.has_lock));
    }
}

TEST_CASE("Python: a stack that has changed is read once more, and then told to be torn") {
    for (const auto& [version, image] : images()) {
        INFO(version);
        const auto once = stacks_in(image, ChangingMemory(image, 1));
        REQUIRE(once.has_value());
        CHECK(is_as_recorded(*once));
        for (const auto& thread : once->threads) CHECK_FALSE(thread.is_torn);
        const auto again = stacks_in(image, ChangingMemory(image, 1000));
        REQUIRE(again.has_value());
        REQUIRE(again->threads.size() == 2);
        for (const auto& thread : again->threads) CHECK(thread.is_torn);
    }
}

TEST_CASE("Python: recorded memory with anything in some places") {
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    for (const auto& [version, sound] : images()) {
        INFO(version);
        std::vector<std::uintptr_t> addresses;
        for (const auto& [address, piece] : sound.pieces) addresses.push_back(address);
        int as_recorded = 0;
        for (int round = 0; round < 400; ++round) {
            MemoryImage image = sound;
            for (std::uint64_t changes = 1 + random() % 8; changes > 0; --changes) {
                auto& piece = image.pieces.at(addresses[random() % addresses.size()]);
                const std::uint64_t words[] = {random() >> random() % 64,
                                               addresses[random() % addresses.size()]};
                const std::size_t place = random() % piece.size() & ~std::size_t{7};
                std::memcpy(&piece[place], &words[random() % 2],
                            std::min<std::size_t>(8, piece.size() - place));
            }
            const auto stacks = stacks_in(image, image);
            if (!stacks) continue;
            check_bounds(*stacks);
            as_recorded += is_as_recorded(*stacks) ? 1 : 0;
        }
        CHECK(as_recorded > 0);
        CHECK(as_recorded < 400);
    }
}

TEST_CASE("Python: memory that says anything, and another thing each time") {
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    for (int round = 0; round < 3000; ++round) {
        const AnyMemory memory(random);
        const auto minor = static_cast<std::uint32_t>(8 + random() % 5);
        check_bounds(read_python_stacks(memory, {0x1000, 0x030000f0 | minor << 16, false, ""}, {}));
        find_python(memory, {{0x1000, 0x2000, 0, "r--p", "/usr/bin/python3"}}, "");
    }
}

TEST_CASE("Python: memory without an end") {
    for (const std::uint32_t minor : {8, 9, 10, 11, 12}) {
        const EndlessMemory memory;
        const BoundedReader counted(memory);
        const auto stacks = read_python_stacks(counted, {0x1000, 0x030000f0 | minor << 16, false, ""}, {});
        check_bounds(stacks);
        CHECK(counted.reads() <= BoundedReader::kMaxReads);
    }
}

}  // namespace ddprun
