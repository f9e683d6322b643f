// The ordinary stories of a job, as they are written down in tests/rendezvous/transcripts.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/rendezvous/coordinator/transcript.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("what is written down is what is said") {
    int stories = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(DDPRUN_SOURCE_DIR "/tests/rendezvous/transcripts")) {
        INFO(entry.path());
        std::ifstream file(entry.path());
        const std::string story{std::istreambuf_iterator<char>(file), {}};
        CHECK(Transcript::replay(story) == story);
        ++stories;
    }
    CHECK(stories >= 8);
}

}  // namespace ddprun
