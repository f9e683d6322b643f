// The memory that ranks share, and who is let in.
#include "collectives/shm/shm_segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <set>
#include <string>

#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

Membership membership_of(int world_size) {
    Membership membership;
    membership.round = 3;
    membership.communicator = 2;
    membership.nonce.fill(7);
    membership.members.resize(static_cast<std::size_t>(world_size), {{"127.0.0.1", 1}, "host"});
    return membership;
}

std::string maps() {
    std::ifstream file("/proc/self/maps");
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("no two things in the shared memory overlap, and all are aligned", "[shm]") {
    constexpr std::size_t kLargePage = std::size_t{64} << 10;
    for (int i = 0; i < 12; ++i) {
        const int n = std::array{2, 3, 8, 32, 128, kShmMaxRanks}[static_cast<std::size_t>(i / 2)];
        const std::size_t page = i % 2 == 0 ? 4096 : kLargePage;
        const ShmLayout layout(n, 0, page);
        std::set<std::pair<std::size_t, std::size_t>> places{
            {0, sizeof(ShmHeader)}, {layout.meeting(), sizeof(ShmMeeting)}, {layout.end(), sizeof(ShmEnd)}};
        const auto add = [&](std::size_t offset, std::size_t size, std::size_t alignment) {
            REQUIRE(offset % alignment == 0);
            REQUIRE(places.insert({offset, size}).second);
        };
        for (int rank = 0; rank < n; ++rank) {
            for (int bank = 0; bank < 2; ++bank) {
                add(layout.flag(rank, bank), sizeof(ShmFlag), kShmLine);
                add(layout.record(rank, bank), sizeof(ShmCallRecord), kShmLine);
                add(layout.slot(rank, bank), layout.slot_payload(), page);
            }
            add(layout.progress(rank), sizeof(ShmProgress), kShmLine);
            add(layout.wakeup(rank), sizeof(ShmWakeup), kShmLine);
            add(layout.cpus(rank), sizeof(ShmCpus), kShmLine);
            add(layout.life(rank), sizeof(ShmLife), kShmLine);
            for (int j = 0; j < kShmStages; ++j) add(layout.stage(rank, j), layout.stage_size(), page);
        }
        std::size_t end = 0;
        for (const auto& [offset, size] : places) {
            REQUIRE(offset >= end);
            end = offset + size;
        }
        REQUIRE(end <= layout.size());
        REQUIRE(end <= layout.messages());
        REQUIRE(layout.messages() <= kShmMaxStages + (std::size_t{36} << 20));
        // Of which only what messages have used is ever there.
        REQUIRE(layout.size() - layout.messages() <= std::size_t{256} << 20);
    }
}

TEST_CASE("what one maps the other sees, and nothing stays behind", "[shm]") {
    const Membership membership = membership_of(2);
    {
        auto mine = ShmSegment::create(membership);
        REQUIRE(mine);
        auto theirs = ShmSegment::open(mine->offer(), membership);
        REQUIRE(theirs);
        mine->close_offer();
        std::strcpy(reinterpret_cast<char*>(mine->stage(1, 2)), "hello");
        REQUIRE(std::strcmp(reinterpret_cast<char*>(theirs->stage(1, 2)), "hello") == 0);
        REQUIRE(maps().find("memfd:ddprun-collectives") != std::string::npos);
    }
    REQUIRE(maps().find("memfd:ddprun-collectives") == std::string::npos);
}

TEST_CASE("pools lie behind all else, and only where all ranks are on one host", "[shm]") {
    Membership membership = membership_of(3);
    const auto segment = ShmSegment::create(membership);
    REQUIRE(segment);
    const ShmLayout& layout = segment->layout();
    REQUIRE(layout.pool_size() >= std::size_t{64} << 20);
    REQUIRE(layout.pool(0) >= layout.size());
    REQUIRE(layout.pool(2) == layout.pool(0) + 2 * layout.pool_size());
    const auto theirs = ShmSegment::open(segment->offer(), membership);
    REQUIRE(theirs);
    REQUIRE(theirs->layout().pool_size() == layout.pool_size());
    segment->memory(layout.pool(2))[5] = std::byte{1};
    REQUIRE(theirs->memory(layout.pool(2))[5] == std::byte{1});
    // Who has no room for as many addresses maps all the rest.
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit little{pages * page_size() + layout.size() + layout.pool_size(), before.rlim_max};
    if (::setrlimit(RLIMIT_AS, &little) == 0) {
        const auto smaller = ShmSegment::open(segment->offer(), membership);
        ::setrlimit(RLIMIT_AS, &before);
        REQUIRE(smaller);
        REQUIRE(smaller->layout().pool_size() == 0);
        REQUIRE_FALSE(smaller->pool(0));
    }
    membership.members[2].host = "another";
    const auto of_two_hosts = ShmSegment::create(membership);
    REQUIRE(of_two_hosts);
    REQUIRE(of_two_hosts->layout().pool_size() == 0);
}

TEST_CASE("memory of another communicator is refused", "[shm]") {
    const auto segment = ShmSegment::create(membership_of(2));
    REQUIRE(segment);
    const ShmOffer offer = segment->offer();
    Membership other = membership_of(2);
    REQUIRE(ShmSegment::open(offer, other));
    other.nonce[15] = 8;
    REQUIRE_FALSE(ShmSegment::open(offer, other));
    other = membership_of(2);
    other.round = 4;
    REQUIRE_FALSE(ShmSegment::open(offer, other));
    other = membership_of(2);
    other.communicator = 3;
    REQUIRE_FALSE(ShmSegment::open(offer, other));
    REQUIRE_FALSE(ShmSegment::open(offer, membership_of(3)));
}

TEST_CASE("memory of a rank with other pages is refused, since everything has another place there", "[shm]") {
    const auto segment = ShmSegment::create(membership_of(2));
    REQUIRE(segment);
    auto& header = *reinterpret_cast<ShmHeader*>(segment->memory(0));
    REQUIRE(header.page == page_size());
    header.page *= 16;
    REQUIRE_FALSE(ShmSegment::open(segment->offer(), membership_of(2)));
}

TEST_CASE("what is no sealed memory of ours is refused", "[shm]") {
    const Membership membership = membership_of(2);
    const auto refused = [&](int fd) {
        const bool result = !ShmSegment::open({::getpid(), fd}, membership);
        ::close(fd);
        return result;
    };
    REQUIRE_FALSE(ShmSegment::open({}, membership));
    REQUIRE_FALSE(ShmSegment::open({::getpid(), 999'999}, membership));
    REQUIRE(refused(::open("/dev/null", O_RDWR | O_CLOEXEC)));
    REQUIRE(refused(::memfd_create("something-else", MFD_CLOEXEC)));
    const int empty = ::memfd_create("ddprun-collectives", MFD_CLOEXEC);
    REQUIRE(refused(empty));
    const int unsealed = ::memfd_create("ddprun-collectives", MFD_CLOEXEC);
    REQUIRE(::ftruncate(unsealed, static_cast<off_t>(ShmLayout(2).size())) == 0);
    REQUIRE(refused(unsealed));
}

TEST_CASE("nobody can shrink the shared memory under the others", "[shm]") {
    const auto segment = ShmSegment::create(membership_of(2));
    REQUIRE(segment);
    REQUIRE(::ftruncate(segment->offer().descriptor, 0) != 0);
}

TEST_CASE("more ranks than the layout is for share no memory", "[shm]") {
    REQUIRE_FALSE(ShmSegment::create(membership_of(kShmMaxRanks + 1)));
}
