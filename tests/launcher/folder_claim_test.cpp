#include "launcher/folder_claim.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

}  // namespace

TEST_CASE("a claim is seen while it lives, also when the folder has another name") {
    TemporaryFolder parent;
    const fs::path folder = parent.path() / "starting";
    fs::create_directory(folder);
    CHECK(claim_on(folder) == ClaimState::free);
    std::optional<FolderClaim> claim(folder);
    CHECK(claim_on(folder) == ClaimState::held);
    CHECK(claim_on(folder) == ClaimState::held);  // looking takes nothing
    fs::rename(folder, parent.path() / "named");
    CHECK(claim_on(parent.path() / "named") == ClaimState::held);
    CHECK(claim_on(parent.path()) == ClaimState::free);
    FolderClaim moved = std::move(*claim);
    claim.reset();
    CHECK(claim_on(parent.path() / "named") == ClaimState::held);
    moved = FolderClaim();
    CHECK(claim_on(parent.path() / "named") == ClaimState::free);
}

TEST_CASE("a claim ends with the process, killed or not") {
    TemporaryFolder folder;
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
        const FolderClaim claim(folder.path());
        ::write(ready[1], "", 1) == 1 ? ::pause() : 0;
        ::_exit(1);
    }
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    CHECK(claim_on(folder.path()) == ClaimState::held);
    ::kill(child, SIGKILL);
    siginfo_t info;
    REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
    CHECK(claim_on(folder.path()) == ClaimState::free);  // not reaped, and gone all the same
    ::waitpid(child, nullptr, 0);
    ::close(ready[0]);
    ::close(ready[1]);
}

TEST_CASE("a claim keeps cleaners of temporary files away") {
    TemporaryFolder folder;
    const OwnedDescriptor cleaner(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(cleaner);
    {
        const FolderClaim claim(folder.path());
        CHECK(::flock(cleaner.get(), LOCK_EX | LOCK_NB) != 0);
        CHECK(errno == EWOULDBLOCK);
    }
    CHECK(::flock(cleaner.get(), LOCK_EX | LOCK_NB) == 0);
}

TEST_CASE("what cannot be judged is unknown") {
    TemporaryFolder folder;
    CHECK(claim_on(folder.path() / "missing") == ClaimState::unknown);
    CHECK(claim_on(folder.file("file", "")) == ClaimState::unknown);
    fs::create_directory_symlink(folder.path(), folder.path() / "link");
    CHECK(claim_on(folder.path() / "link") == ClaimState::unknown);
    CHECK(claim_on("/proc/sys") == ClaimState::unknown);  // no file system of the list
    const FolderClaim nothing(folder.path() / "missing");
}

}  // namespace ddprun
