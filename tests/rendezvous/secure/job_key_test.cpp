#include "rendezvous/secure/secret.hpp"

#include "tests/rendezvous/secure/bytes_of_hex.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

std::string key_hex(const SecretKey& key) {
    return hex_of_bytes({reinterpret_cast<const char*>(key.data()), SecretKey::kBytes});
}

std::string complaint_about_secret(std::string_view text) {
    const auto parsed = parse_secret(text);
    const auto* wrong = std::get_if<std::string_view>(&parsed);
    return wrong != nullptr ? std::string(*wrong) : "";
}

}  // namespace

TEST_CASE("a job's key is what Python's hashlib makes of a made secret and the run id", "[job_key]") {
    const std::string made =
        "ddprun-00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff77649bf1";
    CHECK(std::get<std::string>(parse_secret(made)) == made);
    CHECK(key_hex(job_key(made, "run-7")) ==
          "c17859115912831882ca8a1bcd57d6881e8aa7262d75170a7c8bf7096ffffa69");
    CHECK_FALSE(job_key(made, "run-8") == job_key(made, "run-7"));
}

TEST_CASE("a job's key is made of what Argon2id makes of a secret that somebody has chosen", "[job_key]") {
    CHECK(key_hex(job_key("0123456789abcdefghijklmnop", "run-7")) ==
          "765f2fd73c27f15a4a48f329d1f907ec4af27ee611ac9392ec18213bfeb85fd9");
    CHECK_FALSE(job_key("0123456789abcdefghijklmnop", "run-8") ==
                job_key("0123456789abcdefghijklmnop", "run-7"));
}

TEST_CASE("the key of a round's mesh is what Python's hashlib makes of the job's, and another one for each",
          "[job_key]") {
    const SecretKey job = job_key("0123456789abcdefghijklmnop", "run-7");
    CHECK(key_hex(mesh_key(job, "job7-abc", 258)) ==
          "7731bf540095b229cd2eca913be29f74b7d05ae86145159cc29b1bc1f810af2d");
    CHECK_FALSE(mesh_key(job, "job7-abc", 2) == mesh_key(job, "job7-abc", 258));
    CHECK_FALSE(mesh_key(job, "job7-abd", 258) == mesh_key(job, "job7-abc", 258));
    CHECK_FALSE(mesh_key(SecretKey(), "job7-abc", 258) == mesh_key(job, "job7-abc", 258));
}

TEST_CASE("a key is 64 hexadecimal digits, and back", "[job_key]") {
    const SecretKey key = SecretKey::fresh();
    CHECK(hex_of(key) == key_hex(key));
    CHECK(parse_secret_key(hex_of(key)) == key);
    const std::string digits(63, 'a');
    for (const std::string& wrong :
         {std::string(), digits, digits + "g", digits + " ", digits + "aa", " " + digits})
        CHECK_FALSE(parse_secret_key(wrong).has_value());
}

TEST_CASE("a secret is one line of at least 22 characters", "[job_key]") {
    const std::string good = "0123456789abcdef012345";
    CHECK(std::get<std::string>(parse_secret(good)) == good);
    CHECK(std::get<std::string>(parse_secret("  " + good + "\r\n")) == good);
    CHECK(std::get<std::string>(parse_secret("four words and blanks between")) ==
          "four words and blanks between");
    CHECK(complaint_about_secret("") == "is empty");
    CHECK(complaint_about_secret(" \n") == "is empty");
    CHECK(complaint_about_secret(good.substr(1)) == "is shorter than 22 characters");
    CHECK(complaint_about_secret(good + "\n" + good) == "is more than one line of text");
    for (const char odd : {'\0', '\t', '\x7f'})
        CHECK(complaint_about_secret(good + odd + good) == "has characters that are no text, a tab perhaps");
    CHECK(complaint_about_secret(std::string(kMaxSecretText + 1, 'x')) == "is longer than 1024 characters");
    const std::string longest = good + std::string(kMaxSecretText - good.size(), 'x');
    CHECK(std::get<std::string>(parse_secret(longest)) == longest);
}

TEST_CASE("a secret that nobody has made at random is refused", "[job_key]") {
    CHECK_THAT(complaint_about_secret(std::string(22, 'a')), Catch::StartsWith("has too few different"));
    CHECK_THAT(complaint_about_secret("1212343412123434121234345"),
               Catch::StartsWith("has too few different"));
    CHECK(complaint_about_secret("1212343412123434121234356").empty());
}

TEST_CASE("a secret that was made is one, and no other one", "[job_key]") {
    const std::string text = make_secret_text();
    CHECK(text.size() == 79);
    CHECK(std::get<std::string>(parse_secret(text)) == text);
    CHECK(make_secret_text() != text);
    // A copy that is cut, or has another letter, is noticed.
    for (std::size_t i = 8; i < text.size(); ++i) {
        std::string changed = text;
        changed[i] = changed[i] == 'a' ? 'b' : 'a';
        CHECK_THAT(complaint_about_secret(changed), Catch::StartsWith("is not as ddprun has made it"));
        CHECK_FALSE(complaint_about_secret(text.substr(0, i)).empty());
    }
    CHECK_FALSE(complaint_about_secret(text + "0").empty());
}
