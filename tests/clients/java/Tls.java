import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;

/** Whether the tests talk over TLS, and whom they trust then. */
final class Tls {
  private Tls() {}

  /** Makes the authority of TIDEWIRE_TLS_CA the only one; returns false without such a variable. */
  static boolean prepare() {
    String file = System.getenv("TIDEWIRE_TLS_CA");
    if (file == null) {
      return false;
    }
    try (InputStream input = Files.newInputStream(Path.of(file))) {
      Certificate authority = CertificateFactory.getInstance("X.509").generateCertificate(input);
      KeyStore store = KeyStore.getInstance("PKCS12");
      store.load(null, null);
      store.setCertificateEntry("authority", authority);
      Path place = Files.createTempFile("authority", ".p12");
      place.toFile().deleteOnExit();
      try (OutputStream output = Files.newOutputStream(place)) {
        store.store(output, "public".toCharArray());
      }
      System.setProperty("javax.net.ssl.trustStore", place.toString());
      System.setProperty("javax.net.ssl.trustStoreType", "PKCS12");
      System.setProperty("javax.net.ssl.trustStorePassword", "public");
      return true;
    } catch (Exception failure) {
      throw new IllegalStateException(file, failure);
    }
  }
}
