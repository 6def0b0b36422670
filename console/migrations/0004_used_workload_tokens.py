from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('console', '0003_governance'),
    ]

    operations = [
        migrations.CreateModel(
            name='WorkloadTokenUse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('expires_at', models.DateTimeField(db_index=True)),
            ],
            options={
                'ordering': ['expires_at'],
            },
        ),
    ]
