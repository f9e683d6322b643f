#include "rendezvous/secure/secret.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/catch.hpp"

using namespace ddprun;
using Catch::Matchers::Contains;

namespace {

const std::string kFirstSecret = "the-first-secret-of-three";
const std::string kSecondSecret = "the-second-secret-of-three";
const std::string kThirdSecret = "the-third-secret-of-three";

class SecretFolder {
  public:
    SecretFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "ddprun_secret_XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path_ = name;
    }
    ~SecretFolder() { std::filesystem::remove_all(path_); }
    SecretFolder(const SecretFolder&) = delete;
    SecretFolder& operator=(const SecretFolder&) = delete;

    std::filesystem::path operator/(const char* name) const { return path_ / name; }

    std::string file(const char* name, const std::string& text, mode_t mode = 0600) const {
        std::ofstream(path_ / name) << text;
        ::chmod((path_ / name).c_str(), mode);
        return path_ / name;
    }

  private:
    std::filesystem::path path_;
};

std::string secret_from(const SecretSources& sources) {
    const auto found = find_secret(sources);
    INFO((found.index() == 1 ? std::get<1>(found) : ""));
    REQUIRE(found.index() == 0);
    return std::get<0>(found).value_or("none");
}

std::string trouble_with(const SecretSources& sources) {
    const auto found = find_secret(sources);
    REQUIRE(found.index() == 1);
    return std::get<1>(found);
}

}  // namespace

TEST_CASE("the option's file goes first, then the variable, then the user's own file", "[secret]") {
    const SecretFolder folder;
    SecretSources sources{folder.file("given", kFirstSecret + "\n"), kSecondSecret,
                          folder.file("own", kThirdSecret)};
    CHECK(secret_from(sources) == kFirstSecret);
    sources.file.clear();
    CHECK(secret_from(sources) == kSecondSecret);
    sources.variable.clear();
    CHECK(secret_from(sources) == kThirdSecret);
    sources.own_file = folder / "nothing" / "is" / "here";
    CHECK(secret_from(sources) == "none");
    CHECK(secret_from({}) == "none");
}

TEST_CASE("a secret that is given and cannot be taken is said, and no other one taken", "[secret]") {
    const SecretFolder folder;
    const auto given = [&](const std::string& file) {
        return SecretSources{file, kSecondSecret, folder.file("own", kThirdSecret)};
    };
    CHECK_THAT(trouble_with(given(folder / "absent")), Contains("--secret-file") && Contains("No such file"));
    const std::string open = folder.file("open", kFirstSecret, 0640);
    CHECK_THAT(trouble_with(given(open)), Contains("is open to others (mode 0640); chmod 600 " + open));
    CHECK_THAT(trouble_with(given(folder / "")), Contains("is no regular file"));
    REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
    CHECK_THAT(trouble_with(given(folder / "fifo")), Contains("is no regular file"));
    const std::string short_one = trouble_with(given(folder.file("short", "tooshort")));
    CHECK_THAT(short_one, Contains("is shorter than 22 characters; ddprun --make-secret makes one"));
    CHECK_THAT(short_one, !Contains("tooshort"));
    CHECK_THAT(trouble_with(given(folder.file("long", std::string(100'000, 'x')))),
               Contains("is longer than 1024"));
    CHECK_THAT(trouble_with({"", "brief", {}}), Contains("DDPRUN_SECRET: the secret is shorter"));
    CHECK_THAT(trouble_with({"", "", folder.file("own", kThirdSecret, 0604)}), Contains("is open to others"));
}

TEST_CASE("a secret file of another user is refused, root's is not", "[secret]") {
    if (::geteuid() != 0) SUCCEED("only root can make one");
    if (::geteuid() != 0) return;
    const SecretFolder folder;
    const std::string file = folder.file("given", kFirstSecret);
    CHECK(secret_from({file, "", {}}) == kFirstSecret);
    REQUIRE(::chown(file.c_str(), 61234, 61234) == 0);
    CHECK_THAT(trouble_with({file, "", {}}), Contains("belongs to another user (uid 61234)"));
}

TEST_CASE("a secret is made once, for nobody else to read", "[secret]") {
    const SecretFolder folder;
    const auto path = own_secret_file((folder / "config").c_str(), "/no/home");
    CHECK(path == folder / "config" / "ddprun" / "secret");
    REQUIRE(make_secret_file(path) == std::nullopt);
    struct stat facts {};
    REQUIRE(::stat(path.c_str(), &facts) == 0);
    CHECK((facts.st_mode & 07777) == 0600);
    REQUIRE(::stat(path.parent_path().c_str(), &facts) == 0);
    CHECK((facts.st_mode & 07777) == 0700);
    const std::string made = secret_from({"", "", path});
    CHECK_THAT(made, Catch::StartsWith("ddprun-"));
    CHECK_THAT(make_secret_file(path).value_or(""), Contains("is there already, and is kept"));
    CHECK(secret_from({"", "", path}) == made);
}

TEST_CASE("the user's own file is below XDG_CONFIG_HOME, else below the home folder", "[secret]") {
    CHECK(own_secret_file(nullptr, "/a/home") == "/a/home/.config/ddprun/secret");
    CHECK(own_secret_file("", "/a/home") == "/a/home/.config/ddprun/secret");
    CHECK(own_secret_file("relative", "/a/home") == "/a/home/.config/ddprun/secret");
    CHECK(own_secret_file("/a/config", "/a/home") == "/a/config/ddprun/secret");
    CHECK(own_secret_file(nullptr, nullptr).empty());
    CHECK_THAT(make_secret_file({}).value_or(""), Contains("set HOME"));
}
