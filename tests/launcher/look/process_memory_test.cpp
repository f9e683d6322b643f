#include "launcher/look/process_memory.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "tests/launcher/look/forbidden_calls.hpp"
#include "tests/launcher/look/other_process.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/other_user.hpp"

namespace ddprun {
namespace {

// Two pages of which the second cannot be read, as it is behind the file's end; texts are in the first.
// Children have them too.
struct Pages {
    static constexpr std::size_t kPage = 4096;
    Pages() {
        const OwnedDescriptor file(::memfd_create("page", MFD_CLOEXEC));
        REQUIRE(::ftruncate(file.get(), kPage) == 0);
        begin = static_cast<char*>(
            ::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get(), 0));
        std::memset(begin, 'x', kPage);
        std::strcpy(begin, "rank 7");
        std::strcpy(begin + kPage - 5, "last");
    }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    ~Pages() { ::munmap(begin, 2 * kPage); }
    std::uintptr_t at(std::size_t offset) const { return reinterpret_cast<std::uintptr_t>(begin) + offset; }

    char* begin = nullptr;
};

void sleep_on() {
    for (;;) ::pause();
}

// What a reader finds in a child that has the pages: "" if that is all as it should be.
std::string what_is_wrong(const ProcessMemory& memory, const Pages& pages) {
    if (memory.value<char>(pages.at(0)) != 'r') return "a byte";
    if (memory.text(pages.at(0), 100) != "rank 7") return "a text";
    if (memory.text(pages.at(0), 4) != "rank") return "a text that is cut";
    if (memory.text(pages.at(Pages::kPage - 5), 100) != "last") return "a text at the end of a page";
    if (memory.text(pages.at(10), 1000) != std::string(1000, 'x')) return "a text of several pieces";
    if (memory.text(pages.at(10), 0) != "") return "an empty text";
    if (memory.text(pages.at(Pages::kPage), 10)) return "a page that cannot be read";
    if (memory.value<std::uint64_t>(pages.at(Pages::kPage - 4))) return "half of a word";
    for (const std::uintptr_t bad :
         {std::uintptr_t{0}, std::uintptr_t{1}, ~std::uintptr_t{0}, ~std::uintptr_t{7},
          std::uintptr_t{1} << 63, (std::uintptr_t{1} << 47) - 4})
        if (memory.value<std::uint64_t>(bad)) return "a bad address";
    std::vector<std::byte> much(ProcessMemory::kMaxRead + 1);
    if (memory.read(pages.at(0), much)) return "too much";
    if (memory.refusal() != 0) return "a refusal";
    return "";
}

}  // namespace

TEST_CASE("memory of another process, by process_vm_readv") {
    const Pages pages;
    OtherProcess child(sleep_on);
    const ProcessMemory memory(child.pid());
    CHECK(what_is_wrong(memory, pages) == "");
    CHECK_FALSE(memory.reads_by_file());
}

TEST_CASE("memory of another process where process_vm_readv is forbidden, by /proc/PID/mem") {
    const Pages pages;
    OtherProcess child(sleep_on);
    for (const int error : {EPERM, ENOSYS}) {
        CHECK(in_other_process([&] {
                  forbid_reading_calls(error);
                  const ProcessMemory memory(child.pid());
                  const auto wrong = what_is_wrong(memory, pages);
                  return wrong + (memory.reads_by_file() ? "by file" : "by call");
              }) == "by file");
    }
}

TEST_CASE("memory of a process that is stopped, has ended, or may not be read") {
    const Pages pages;
    OtherProcess child(sleep_on);
    ::kill(child.pid(), SIGSTOP);
    child.await_state('T');
    CHECK(what_is_wrong(ProcessMemory(child.pid()), pages) == "");
    const auto refusal = [&] {
        const ProcessMemory memory(child.pid());
        const bool found = memory.value<char>(pages.at(0)).has_value();
        return found ? "found" : std::to_string(memory.refusal());
    };
    const auto forbidden = [&] { return forbid_reading_calls(EPERM), refusal(); };
    if (can_be_other_user()) {
        CHECK(in_other_process([&] {
                  return ::setresuid(kOtherUser, kOtherUser, kOtherUser) == 0 ? refusal() : std::string();
              }) == std::to_string(EACCES));
    }
    ::kill(child.pid(), SIGKILL);
    child.await_state('Z');
    CHECK(refusal() == std::to_string(ESRCH));
    CHECK(in_other_process(forbidden) == std::to_string(ESRCH));
    ::waitpid(child.pid(), nullptr, 0);
    CHECK(refusal() == std::to_string(ESRCH));
    CHECK(in_other_process(forbidden) == std::to_string(ESRCH));
}

}  // namespace ddprun
